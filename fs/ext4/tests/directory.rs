//! Directories that are written: random names against a model, then everybody else's opinion of them.

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

use common::{Mounted, e2fsck, have, mke2fs_empty, open, open_for_writing};
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode};

const MATRIX: [(&str, &str, &str); 10] = [
    ("1 KiB", "-t ext4 -b 1024", "64M"),
    ("4 KiB", "-t ext4 -b 4096", "64M"),
    ("64 KiB", "-t ext4 -b 65536", "96M"),
    ("no index", "-t ext4 -b 1024 -O ^dir_index", "64M"),
    ("no types", "-t ext4 -b 1024 -O ^filetype", "64M"),
    ("no checksums", "-t ext4 -b 1024 -O ^metadata_csum", "64M"),
    ("large_dir", "-t ext4 -b 1024 -O large_dir", "64M"),
    ("inline", "-t ext4 -b 1024 -O inline_data -I 256", "64M"),
    (
        "inline, large",
        "-t ext4 -b 1024 -O inline_data -I 1024",
        "64M",
    ),
    ("ext2", "-t ext2 -b 1024", "64M"),
];

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// Any name that a file can have.
    fn name(&mut self) -> Vec<u8> {
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

/// A directory, and what must be in it.
struct Model {
    files: Vec<InodeNumber>,
    dir: InodeNumber,
    names: BTreeMap<Vec<u8>, usize>,
    random: Random,
}

impl Model {
    fn new(fs: &dyn FsWrite, seed: u64) -> Self {
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

    fn some_name(&mut self) -> Option<Vec<u8>> {
        let from = self.random.name();
        let after = self.names.range(from..).next();
        let any = after.or_else(|| self.names.iter().next());
        any.map(|(name, _)| name.clone())
    }

    fn add(&mut self, fs: &dyn FsWrite) {
        let name = self.random.name();
        let nth = self.random.below(self.files.len());
        let linked = fs.link(self.files[nth], self.dir, &name);
        if self.names.contains_key(&name) {
            assert_eq!(linked.unwrap_err().kind(), ErrorKind::Exists);
        } else {
            linked.unwrap();
            self.names.insert(name, nth);
        }
    }

    fn remove(&mut self, fs: &dyn FsWrite) {
        if let Some(name) = self.some_name() {
            fs.unlink(self.dir, &name).unwrap();
            self.names.remove(&name);
        }
    }

    fn rename(&mut self, fs: &dyn FsWrite) {
        let Some(from) = self.some_name() else { return };
        let to = if self.random.below(2) == 0 {
            self.random.name()
        } else {
            self.some_name().unwrap()
        };
        fs.rename(self.dir, &from, self.dir, &to, RenameMode::Replace)
            .unwrap();
        let nth = self.names[&from];
        // Two names of one file stay as they are.
        if self.names.get(&to) != Some(&nth) {
            self.names.remove(&from);
            self.names.insert(to, nth);
        }
    }

    fn steps(&mut self, fs: &dyn FsWrite, steps: usize, what: &str) {
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

    /// The kernel goes on where we ended, then we do, and so on. Left out where it can't mount.
    fn take_turns(&mut self, image: &Path, steps: usize, what: &str) {
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

    fn compare_mounted(&self, mounted: &Path, what: &str) {
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

    fn step_mounted(&mut self, mounted: &Path) {
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
        if !self.names.contains_key(&name) {
            // An index may be full.
            let linked = fs::hard_link(mounted.join(format!("file-{nth}")), at(&name));
            if linked.is_ok() {
                self.names.insert(name, nth);
            }
        }
    }

    fn expected(&self) -> BTreeMap<Vec<u8>, InodeNumber> {
        let names = self.names.iter();
        names
            .map(|(name, &nth)| (name.clone(), self.files[nth]))
            .collect()
    }

    fn compare(&self, fs: &dyn FsRead, what: &str) {
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

#[test]
fn random_names_in_every_form_of_directory() {
    if !have("random_names", &["mke2fs", "e2fsck"]) {
        return;
    }
    let steps: usize = std::env::var("DISKFS_STEPS").map_or(600, |steps| steps.parse().unwrap());
    let only = std::env::var("DISKFS_ONLY").ok();
    let dir = tempfile::tempdir().unwrap();
    for (nth, (what, args, size)) in (1..).zip(MATRIX) {
        if only.as_ref().is_some_and(|only| only != what) {
            continue;
        }
        let image = mke2fs_empty(dir.path(), args, size);
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, nth);
        model.steps(&fs, steps, what);
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        model.compare(&open(&image), what);
        // Larger than a page: not for the kernel.
        if what != "64 KiB" {
            model.take_turns(&image, steps / 8, what);
        }
        optimised(&image);
        model.compare(&open(&image), what);
    }
}

/// e2fsck makes directories anew.
fn optimised(image: &Path) {
    let done = std::process::Command::new("e2fsck")
        .args(["-f", "-y", "-D"])
        .arg(image)
        .output()
        .unwrap();
    // 1: it has changed something, and all is well.
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{told}");
}

#[test]
#[ignore = "takes minutes"]
fn an_index_that_is_full() {
    if !have("an_index_that_is_full", &["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for args in [
        "-t ext4 -b 1024 -N 64",
        "-t ext4 -b 1024 -N 64 -O large_dir",
        "-t ext4 -b 1024 -N 64 -O large_dir,^metadata_csum",
    ] {
        let image = mke2fs_empty(dir.path(), args, "96M");
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, 7);
        let mut refused = None;
        while model.names.len() < 40_000 && refused.is_none() {
            let name = format!("{:a>250}", model.names.len()).into_bytes();
            let nth = model.names.len() % model.files.len();
            match fs.link(model.files[nth], model.dir, &name) {
                Ok(()) => _ = model.names.insert(name, nth),
                Err(e) => refused = Some(e),
            }
        }
        if let Some(e) = refused {
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
            assert!(e.to_string().contains("large_dir"), "{e}");
            // Somewhere else in the index there may be room.
            model.remove(&fs);
        }
        counts.push(model.names.len());
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        model.compare(&open(&image), args);
        model.take_turns(&image, 20, args);
    }
    assert!(counts[0] < 40_000, "{counts:?}");
    assert_eq!(counts[1..], [40_000, 40_000]);
}
