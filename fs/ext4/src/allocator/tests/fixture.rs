//! A filesystem made by mke2fs, opened for writing.

#![allow(clippy::print_stderr, reason = "a test that skips says why")]

use diskfs_fixtures::have;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::File;

use crate::allocator::Totals;
use crate::error::Result;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::options::WriteOptions;
use crate::writable::WritableExt4;
use crate::writer::Core;

/// Returns true if e2fsprogs is installed; otherwise it prints that the test is skipped, and the
/// test must return.
pub(super) fn available() -> bool {
    have(&["mke2fs", "e2fsck", "dumpe2fs", "debugfs"])
}

/// A random number generator that gives the same numbers in each run.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }
}

/// Fills the file with bytes that look like inodes in use: what was never written may have any
/// contents.
fn fill_with_garbage(image: &Path, size: &str) {
    let mebibytes: usize = size.trim_end_matches('M').parse().unwrap();
    std::fs::write(image, vec![0x41; mebibytes << 20]).unwrap();
}

pub(super) struct Fixture {
    pub(super) what: String,
    image: PathBuf,
    fs: WritableExt4,
    _dir: tempfile::TempDir,
}

impl Fixture {
    pub(super) fn new(what: &str, args: &str, size: &str) -> Self {
        Self::altered(what, args, size, &[])
    }

    /// Creates a filesystem and changes it with debugfs before it is opened.
    pub(super) fn altered(what: &str, args: &str, size: &str, commands: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        if args.contains("lazy_itable_init") {
            fill_with_garbage(&image, size);
        }
        let mut mke2fs = diskfs_fixtures::command("mke2fs");
        mke2fs.args(["-q", "-F"]).args(args.split_whitespace());
        let output = mke2fs.arg(&image).arg(size).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {stderr}");
        for command in commands {
            let mut debugfs = diskfs_fixtures::command("debugfs");
            debugfs.args(["-w", "-R", command]).arg(&image);
            assert!(debugfs.output().unwrap().status.success(), "{command}");
        }
        let device = Arc::new(File::open_read_write(&image).unwrap());
        let options = WriteOptions {
            commit_interval: None,
            ..WriteOptions::default()
        };
        Self {
            what: what.to_owned(),
            image,
            fs: WritableExt4::open(device, &options).unwrap(),
            _dir: dir,
        }
    }

    pub(super) fn core(&self) -> &Core {
        &self.fs.core
    }

    pub(super) fn totals(&self) -> Totals {
        self.core().allocator.totals()
    }

    pub(super) fn ratio(&self) -> u64 {
        1 << self.core().volume().superblock.cluster_ratio_bits
    }

    pub(super) fn blocks(&self) -> u64 {
        self.core().volume().superblock.blocks_count
    }

    pub(super) fn inode(&self, number: u32) -> Arc<Inode> {
        self.core().volume().inode(number).unwrap().unwrap()
    }

    /// Runs an operation that is not repeated when it fails with `NoSpace`.
    pub(super) fn do_once<R>(&self, operation: impl Fn(&Handle<'_>) -> Result<R>) -> Result<R> {
        let done = self
            .core()
            .update(&[], 64, |handle| match operation(handle) {
                Err(e) if e.kind() == crate::error::ErrorKind::NoSpace => Ok(Err(e)),
                other => other.map(Ok),
            });
        done?
    }

    pub(super) fn commit(&self) {
        let core = self.core();
        core.make_durable(core.transactions.running()).unwrap();
        // dumpe2fs does not read the journal.
        core.checkpoint().unwrap();
    }

    /// Allocates an inode, and marks it as in use in the inode table.
    pub(super) fn new_inode(&self, parent: u32, is_dir: bool) -> u32 {
        let stored = self.do_once(|handle| {
            let number = handle.allocator.allocate_inode(handle, parent, is_dir)?;
            let superblock = &handle.volume().superblock;
            let model = Inode::clone(&self.inode(crate::inode::ROOT));
            let inode = Inode {
                number,
                block: [0; 60],
                checksum_seed: superblock.inode_checksum_seed(number, model.generation),
                ..model
            };
            handle.store_new(&inode)?;
            Ok(number)
        });
        stored.unwrap()
    }

    /// Clears an inode's bytes in the inode table, and frees it.
    pub(super) fn delete_inode(&self, number: u32, is_dir: bool) {
        let done = self.do_once(|handle| {
            let volume = handle.volume();
            let (key, offset) = crate::inode_table::key_of(volume, number)?;
            let size = usize::from(volume.superblock.inode_size);
            handle.change(key, |block| block[offset..offset + size].fill(0))?;
            volume.note_inode(number, None);
            handle.allocator.free_inode(handle, number, is_dir)
        });
        done.unwrap();
    }

    fn dumpe2fs(&self) -> String {
        let output = diskfs_fixtures::command("dumpe2fs")
            .arg(&self.image)
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns what dumpe2fs lists after `label`, in units of `unit`.
    fn listed(&self, label: &str, unit: u64, count: u64) -> Vec<bool> {
        let mut listed = vec![false; usize::try_from(count).unwrap()];
        for line in self.dumpe2fs().lines() {
            let Some(rest) = line.strip_prefix(label) else {
                continue;
            };
            for range in rest
                .split(',')
                .map(str::trim)
                .filter(|range| !range.is_empty())
            {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse::<u64>().unwrap() / unit;
                let range = number(first)..=number(last);
                for nth in range {
                    listed[usize::try_from(nth).unwrap()] = true;
                }
            }
        }
        listed
    }

    pub(super) fn free_clusters(&self) -> Vec<bool> {
        let ratio = self.ratio();
        self.listed("  Free blocks: ", ratio, self.blocks().div_ceil(ratio))
    }

    pub(super) fn free_inodes(&self) -> Vec<bool> {
        let count = self.core().volume().superblock.inodes_count;
        self.listed("  Free inodes: ", 1, u64::from(count) + 1)
    }

    /// Closes the filesystem, and checks that e2fsck finds nothing to repair.
    pub(super) fn check(&self) {
        self.commit();
        let output = diskfs_fixtures::command("e2fsck")
            .arg("-fn")
            .arg(&self.image)
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {stdout}", self.what);
    }
}
