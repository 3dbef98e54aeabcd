//! A model of the expected contents of a directory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

use diskfs_vfs::{ErrorKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode};

use crate::common::{Mounted, e2fsck, open_for_writing};

/// A random number generator (Splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// Returns a random valid file name.
    pub(crate) fn name(&mut self) -> Vec<u8> {
        let len = match self.below(10) {
            0 => 200 + self.below(56),
            1 => 1 + self.below(3),
            _ => 5 + self.below(30),
        };
        let mut name: Vec<u8> = (0..len)
            .map(|_| match u8::try_from(self.below(256)).unwrap() {
                0 | b'/' => b'x',
                byte => byte,
            })
            .collect();
        if name == b"." || name == b".." {
            name = b"dot".to_vec();
        }
        name
    }
}

/// A directory and its expected contents.
pub(crate) struct Model {
    pub(crate) files: Vec<InodeNumber>,
    pub(crate) dir: InodeNumber,
    pub(crate) names: BTreeMap<Vec<u8>, usize>,
    pub(crate) random: Random,
}

impl Model {
    pub(crate) fn new(fs: &dyn FsWrite, seed: u64) -> Self {
        let attributes = NewAttributes::for_root(0o755);
        let root = fs.root();
        let make = |name: &str, kind| fs.create(root, name.as_bytes(), kind, &attributes).unwrap();
        Self {
            files: (0..20)
                .map(|n| make(&format!("file-{n}"), NewKind::Regular))
                .collect(),
            dir: make("dir", NewKind::Directory),
            names: BTreeMap::new(),
            random: Random(seed),
        }
    }

    pub(crate) fn some_name(&mut self) -> Option<Vec<u8>> {
        let from = self.random.name();
        let after = self.names.range(from..).next();
        let any = after.or_else(|| self.names.iter().next());
        any.map(|(name, _)| name.clone())
    }

    pub(crate) fn add(&mut self, fs: &dyn FsWrite) {
        let name = self.random.name();
        let nth = self.random.below(self.files.len());
        let linked = fs.link(self.files[nth], self.dir, &name);
        match self.names.entry(name) {
            Entry::Occupied(_) => assert_eq!(linked.unwrap_err().kind(), ErrorKind::Exists),
            Entry::Vacant(free) => {
                linked.unwrap();
                free.insert(nth);
            }
        }
    }

    pub(crate) fn remove(&mut self, fs: &dyn FsWrite) {
        if let Some(name) = self.some_name() {
            fs.unlink(self.dir, &name).unwrap();
            self.names.remove(&name);
        }
    }

    pub(crate) fn rename(&mut self, fs: &dyn FsWrite) {
        let Some(from) = self.some_name() else { return };
        let to = if self.random.below(2) == 0 {
            self.random.name()
        } else {
            self.some_name().unwrap()
        };
        fs.rename(self.dir, &from, self.dir, &to, RenameMode::Replace)
            .unwrap();
        let nth = self.names[&from];
        // A rename between two names of one file changes nothing.
        if self.names.get(&to) != Some(&nth) {
            self.names.remove(&from);
            self.names.insert(to, nth);
        }
    }

    pub(crate) fn steps(&mut self, fs: &dyn FsWrite, steps: usize, what: &str) {
        for step in 0..steps {
            match self.random.below(20) {
                0..=13 => self.add(fs),
                14..=16 => self.remove(fs),
                _ => self.rename(fs),
            }
            if step % (steps / 4) == 0 {
                self.compare(fs, what);
            }
        }
        self.compare(fs, what);
    }

    /// Lets the kernel continue where this driver ended, then this driver, and so on. Skipped if
    /// the kernel can't mount the filesystem.
    pub(crate) fn take_turns(&mut self, image: &Path, steps: usize, what: &str) {
        for _ in 0..2 {
            let Some(mounted) = Mounted::new(what, image) else {
                return;
            };
            self.compare_mounted(mounted.path(), what);
            for _ in 0..steps {
                self.step_mounted(mounted.path());
            }
            drop(mounted);
            let fs = open_for_writing(image);
            self.compare(&fs, what);
            self.steps(&fs, steps, what);
            fs.close().unwrap();
            drop(fs);
            e2fsck(image);
        }
    }

    pub(crate) fn compare_mounted(&self, mounted: &Path, what: &str) {
        let mut listed = BTreeMap::new();
        for entry in fs::read_dir(mounted.join("dir"))
            .unwrap()
            .map(Result::unwrap)
        {
            let inode = fs::symlink_metadata(entry.path()).unwrap().ino();
            assert_eq!(entry.ino(), inode);
            listed.insert(entry.file_name().into_vec(), InodeNumber(inode));
        }
        assert!(listed == self.expected(), "{what}: the kernel has others");
    }

    pub(crate) fn step_mounted(&mut self, mounted: &Path) {
        let at = |name: &[u8]| mounted.join("dir").join(OsStr::from_bytes(name));
        if self.random.below(3) == 0 {
            if let Some(name) = self.some_name() {
                fs::remove_file(at(&name)).unwrap();
                self.names.remove(&name);
            }
            return;
        }
        let name = self.random.name();
        let nth = self.random.below(self.files.len());
        if let Entry::Vacant(free) = self.names.entry(name) {
            let linked = fs::hard_link(mounted.join(format!("file-{nth}")), at(free.key()));
            // An index may be full.
            if linked.is_ok() {
                free.insert(nth);
            }
        }
    }

    pub(crate) fn expected(&self) -> BTreeMap<Vec<u8>, InodeNumber> {
        let names = self.names.iter();
        names
            .map(|(name, &nth)| (name.clone(), self.files[nth]))
            .collect()
    }

    pub(crate) fn compare(&self, fs: &dyn FsRead, what: &str) {
        let mut listed = BTreeMap::new();
        for entry in fs.read_dir(self.dir, 0).unwrap() {
            let entry = entry.unwrap();
            if entry.name != b"." && entry.name != b".." {
                let before = listed.insert(entry.name, entry.inode);
                assert_eq!(before, None, "{what}: listed twice");
            }
        }
        let expected = self.expected();
        assert!(
            listed == expected,
            "{what}: {} listed, {} expected",
            listed.len(),
            expected.len()
        );
        for (name, inode) in expected {
            assert_eq!(fs.lookup(self.dir, &name).unwrap(), inode, "{what}");
        }
    }
}
