//! The number of bytes that are read of inode tables.

mod common;

use std::sync::Arc;

use common::{mke2fs_empty, open_for_writing};
use diskfs_block::{BlockRead, Counting, File};
use diskfs_ext4::{Ext4, Options};
use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

const BLOCK_BYTES: u64 = 4096;
const INODE_BYTES: u64 = 256;

/// The first reads are for one file, and later ones for many: 32 KiB of a table at once.
#[test]
fn few_inodes_need_blocks_and_many_need_pieces() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-b 4096 -I 256 -N 8192", "64M");
    let fs = open_for_writing(&image);
    let attributes = NewAttributes::for_root(0o644);
    let mut inodes: Vec<InodeNumber> = Vec::new();
    for n in 0..4096 {
        let name = format!("file-{n}");
        let made = fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes);
        inodes.push(made.unwrap());
    }
    fs.close().unwrap();
    drop(fs);
    inodes.sort_unstable();

    let file: Arc<dyn BlockRead> = Arc::new(File::open(&image).unwrap());
    let device = Arc::new(Counting::new(file));
    let fs = Ext4::open(device.clone(), &Options::default()).unwrap();
    fs.metadata(fs.root()).unwrap();
    device.reset();
    let middle = inodes[2048];
    fs.metadata(middle).unwrap();
    assert_eq!(device.reset().read_bytes, BLOCK_BYTES);
    fs.metadata(middle).unwrap();
    assert_eq!(device.reset().reads, 0, "it is cached");

    for &inode in &inodes {
        fs.metadata(inode).unwrap();
    }
    let counts = device.reset();
    let table_bytes = 4096 * INODE_BYTES;
    assert!(
        counts.read_bytes <= table_bytes + 20 * 32 * 1024,
        "{counts:?}"
    );
    assert!(
        counts.reads <= 16 + table_bytes / (32 * 1024) + 4,
        "{counts:?}"
    );
}
