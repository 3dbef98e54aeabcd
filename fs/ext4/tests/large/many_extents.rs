//! A file with very many extents.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{Counting, File};
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{Fallocate, FileExtentKind, FsRead, FsWrite, InodeNumber, NewKind};

use crate::common::{Mounted, debugfs, e2fsck, mke2fs_empty, open, open_for_writing};
use crate::{create, number, usize_of};

const BLOCK: u64 = 4096;

/// Returns the first bytes of the file's block `n`.
fn stamp(n: u64) -> [u8; 8] {
    (n | 1 << 63).to_le_bytes()
}

fn block(n: u64) -> Vec<u8> {
    let mut block = vec![0; usize_of(BLOCK)];
    block[..8].copy_from_slice(&stamp(n));
    block
}

/// Fails unless, of the blocks below `end`, even ones have their stamp and odd ones are holes.
fn check(fs: &dyn FsRead, file: InodeNumber, end: u64) {
    assert_eq!(fs.metadata(file).unwrap().size_bytes, end * BLOCK);
    let mut found = [0; 8];
    for n in 0..end {
        fs.read_at(file, n * BLOCK, &mut found).unwrap();
        let expected = if n % 2 == 0 { stamp(n) } else { [0; 8] };
        assert_eq!(found, expected, "block {n}");
    }
    for (n, extent) in (0..).zip(fs.extents_of(file, 0).unwrap()) {
        let extent = extent.unwrap();
        assert_eq!((extent.offset, extent.len_bytes), (n * BLOCK, BLOCK));
        assert_eq!(extent.kind == FileExtentKind::Hole, n % 2 == 1, "block {n}");
    }
}

/// Checks a sample of the blocks on the kernel's mount.
fn check_mounted(image: &Path, end: u64) {
    let Some(mounted) = Mounted::new("many extents", image) else {
        return;
    };
    let file = fs::File::open(mounted.path().join("file")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), end * BLOCK);
    let step = if end > 100_000 { 7 } else { 1 };
    let mut found = [0; 8];
    for n in (0..end).step_by(step) {
        file.read_exact_at(&mut found, n * BLOCK).unwrap();
        let expected = if n % 2 == 0 { stamp(n) } else { [0; 8] };
        assert_eq!(found, expected, "block {n}");
    }
}

/// Returns the number of levels of the tree below the inode.
fn depth(image: &Path) -> u32 {
    let tree = debugfs(image, &["dump_extents -n /file"]);
    let root = tree.lines().find(|line| line.starts_with(" 0/ ")).unwrap();
    let depth = root.split_whitespace().nth(1).unwrap();
    depth.parse().unwrap()
}

/// Tests as many extents as `DISKFS_EXTENTS` says: `make` creates them, this driver, e2fsck and the
/// kernel check them. Then they are truncated, split by the kernel if it can mount the image, and
/// removed.
fn of_many_extents(make: impl Fn(&dyn FsWrite, InodeNumber, u64)) {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let count = number("DISKFS_EXTENTS", 3_000);
    let end = 2 * count;
    let dir = tempfile::tempdir().unwrap();
    let size = format!("{}M", 64 + end * BLOCK / (1 << 20) * 5 / 4);
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 4096 -m 0", &size);
    let fs = open_for_writing(&image);
    let file = create(&fs, fs.root(), "file", NewKind::Regular).unwrap();
    make(&fs, file, end);
    check(&fs, file, end);
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    // 340 entries per node, and a root with 4.
    let expected = if count > 4 * 340 * 340 / 2 { 3 } else { 2 };
    assert_eq!(depth(&image), expected);
    check_mounted(&image, end);

    let fs = open_for_writing(&image);
    let cut = count / 3 * 2;
    fs.set_len(file, cut * BLOCK).unwrap();
    check(&fs, file, cut);
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    check(&open(&image), file, cut);
    check_mounted(&image, cut);

    let fs = open_for_writing(&image);
    let before = fs.statistics().unwrap().blocks_free;
    fs.unlink(fs.root(), b"file").unwrap();
    fs.sync().unwrap();
    let freed = fs.statistics().unwrap().blocks_free - before;
    assert!(freed >= cut / 2, "{freed} blocks are free again");
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
}

#[test]
fn each_other_block_written() {
    of_many_extents(|fs, file, end| {
        for n in (0..end).step_by(2) {
            let written = fs.write_at(file, n * BLOCK, &block(n)).unwrap();
            assert_eq!(written, usize_of(BLOCK));
        }
        fs.set_len(file, end * BLOCK).unwrap();
    });
}

#[test]
fn each_other_block_punched() {
    of_many_extents(|fs, file, end| {
        const PIECE: u64 = 256;
        for start in (0..end).step_by(usize_of(PIECE)) {
            let blocks = start..end.min(start + PIECE);
            let piece: Vec<u8> = blocks.flat_map(block).collect();
            let written = fs.write_at(file, start * BLOCK, &piece).unwrap();
            assert_eq!(written, piece.len());
        }
        for n in (1..end).step_by(2) {
            fs.fallocate(file, n * BLOCK, BLOCK, Fallocate::PunchHole)
                .unwrap();
        }
    });
}

/// A program that copies a sparse file seeks for data and for a hole at each of its extents.
#[test]
fn a_seek_reads_few_blocks() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 4096 -m 0", "128M");
    let fs = open_for_writing(&image);
    let file = create(&fs, fs.root(), "file", NewKind::Regular).unwrap();
    let end = 24_000;
    for n in (0..end).step_by(2) {
        fs.write_at(file, n * BLOCK, &block(n)).unwrap();
    }
    fs.close().unwrap();
    drop(fs);
    let device = Arc::new(Counting::new(Arc::new(
        File::open_read_write(&image).unwrap(),
    )));
    let fs = WritableExt4::open(device.clone(), &WriteOptions::default()).unwrap();
    fs.metadata(file).unwrap();
    device.reset();
    let mut extents = fs.extents_of(file, 12_000 * BLOCK).unwrap();
    assert_eq!(extents.next().unwrap().unwrap().offset, 12_000 * BLOCK);
    drop(extents);
    // The 12,000 extents are in 36 leaves. The first 4,096 runs are read, before it is known that
    // the file has more of them than are cached as a list.
    let reads = device.reset().reads;
    assert!(reads <= 16, "{reads} reads");
    let extents: Vec<_> = fs.extents_of(file, 0).unwrap().collect();
    assert_eq!(extents.len(), usize_of(end) - 1);
    fs.close().unwrap();
}
