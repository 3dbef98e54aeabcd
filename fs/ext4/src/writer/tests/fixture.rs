//! A filesystem made by mke2fs, in memory.

#![allow(clippy::print_stderr, reason = "a test that skips says why")]

use diskfs_fixtures::have;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
use diskfs_vfs::{FsRead, InodeNumber};

use crate::block::{FileBlock, FsBlock};
use crate::error::Result;
use crate::ext4::{Ext4, Options};
use crate::file_blocks::runs;
use crate::inode_table;
use crate::superblock::Superblock;
use crate::writable::WritableExt4;

/// Returns true if e2fsprogs is installed; otherwise it prints that the test is skipped, and the
/// test must return.
pub(super) fn available() -> bool {
    have(&["mke2fs", "e2fsck", "debugfs"])
}

pub(super) struct Image {
    pub(super) what: String,
    bytes: Vec<u8>,
    /// The inode numbers of its files.
    pub(super) files: Vec<u32>,
}

impl Image {
    pub(super) fn new(what: &str, args: &str, size: &str, files: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        for n in 0..files {
            fs::write(tree.join(format!("{n:04}")), n.to_string()).unwrap();
        }
        let image = dir.path().join("image");
        let mut mke2fs = diskfs_fixtures::command("mke2fs");
        mke2fs
            .args(["-q", "-F", "-E", "root_owner=0:0", "-d"])
            .arg(&tree);
        mke2fs.args(args.split_whitespace()).arg(&image).arg(size);
        succeed(what, mke2fs.output().unwrap());
        Self::of(what, &image)
    }

    pub(super) fn of(what: &str, path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let fs = open(Arc::new(Memory::new(bytes.clone()))).unwrap();
        let names = fs.read_dir(fs.root(), 0).unwrap();
        let files = names.map(|entry| entry.unwrap());
        let files = files.filter(|entry| entry.name.first().is_some_and(u8::is_ascii_digit));
        let files = files.map(|entry| u32::try_from(entry.inode.0).unwrap());
        Self {
            what: what.to_owned(),
            files: files.collect(),
            bytes,
        }
    }

    /// Returns a copy of the device.
    pub(super) fn memory(&self) -> Arc<Memory> {
        Arc::new(Memory::new(self.bytes.clone()))
    }

    /// Changes the owner of all files in one transaction.
    pub(super) fn own(&self, fs: &WritableExt4, uid: u32) -> Result<()> {
        let volume = fs.core.volume();
        let mut blocks: Vec<_> = self
            .files
            .iter()
            .map(|&number| inode_table::key_of(volume, number).unwrap().0.block)
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        let credits = u32::try_from(blocks.len()).unwrap();
        fs.core.update(&self.files, credits, |handle| {
            for &number in &self.files {
                let mut inode = handle.inode(number)?;
                inode.uid = uid;
                handle.store_attributes(&inode)?;
            }
            Ok(())
        })
    }

    pub(super) fn block_bytes(&self) -> usize {
        let superblock = Superblock::read(&*self.memory()).unwrap();
        superblock.block_size.len()
    }

    /// Returns the inode number of the first file, and its block.
    pub(super) fn block_of_first(&self) -> (u32, FsBlock) {
        let number = self.files[0];
        let fs = open(self.memory()).unwrap();
        let inode = fs.volume().inode(number).unwrap().unwrap();
        let run = runs(fs.volume(), &inode, FileBlock(0)).next().unwrap();
        (number, run.unwrap().fs_block)
    }

    /// Reads the first file.
    pub(super) fn read_first(&self, device: Arc<dyn BlockRead>) -> Vec<u8> {
        let fs = open(device).unwrap();
        let mut bytes = [0];
        let inode = InodeNumber(u64::from(self.files[0]));
        fs.read_at(inode, 0, &mut bytes).unwrap();
        bytes.to_vec()
    }

    /// Returns the content of a block of a device.
    pub(super) fn content(&self, device: &dyn BlockRead, block: FsBlock) -> Vec<u8> {
        let mut bytes = vec![0; self.block_bytes()];
        let at = block.0 * u64::try_from(bytes.len()).unwrap();
        device.read_at(at, &mut bytes).unwrap();
        bytes
    }

    /// Returns the owner of all files, or `None` if they differ.
    pub(super) fn owner(&self, device: Arc<dyn BlockRead>) -> Option<u32> {
        let fs = open(device).unwrap_or_else(|e| panic!("{}: {e}", self.what));
        let owner = |number: &u32| {
            let metadata = fs.metadata(InodeNumber(u64::from(*number)));
            metadata
                .unwrap_or_else(|e| panic!("{}: {e}", self.what))
                .uid
        };
        let first = owner(self.files.first()?);
        self.files
            .iter()
            .all(|n| owner(n) == first)
            .then_some(first)
    }
}

fn open(device: Arc<dyn BlockRead>) -> Result<Ext4> {
    Ext4::open(device, &Options::default())
}

/// Returns true if the filesystem is marked as cleanly unmounted.
pub(super) fn is_clean(device: &dyn BlockRead) -> bool {
    use crate::features::{Incompatible, ReadOnlyCompatible};
    let superblock = Superblock::read(device).unwrap();
    let features = superblock.features;
    superblock.state.clean
        && !features.has(Incompatible::NEEDS_RECOVERY)
        && !features.has(ReadOnlyCompatible::ORPHAN_PRESENT)
}

/// Returns true if an error is recorded in the filesystem or its journal.
pub(super) fn has_errors(device: &dyn BlockRead) -> bool {
    Superblock::read(device).unwrap().state.errors
}

fn succeed(what: &str, output: Output) -> String {
    let [out, err] =
        [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert!(output.status.success(), "{what}: {out}{err}");
    out
}

/// Writes a device to a file in `dir`.
pub(super) fn save(device: &dyn BlockRead, path: &Path) {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Returns the device after e2fsck recovered its journal and found nothing else to repair.
pub(super) fn e2fsck(device: &dyn BlockRead, what: &str) -> Arc<Memory> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    save(device, &path);
    // Only the journal is recovered: e2fsck must not find anything else to repair.
    let recovery = diskfs_fixtures::command("e2fsck")
        .args(["-E", "journal_only", "-p"])
        .arg(&path)
        .output();
    let code = recovery.as_ref().unwrap().status.code();
    assert!(matches!(code, Some(0 | 1)), "{what}: {recovery:?}");
    succeed(
        what,
        diskfs_fixtures::command("e2fsck")
            .args(["-f", "-n"])
            .arg(&path)
            .output()
            .unwrap(),
    );
    Arc::new(Memory::new(fs::read(&path).unwrap()))
}
