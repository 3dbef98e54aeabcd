use diskfs_block::Memory;

use zerocopy::FromBytes;

use crate::run::{FileMaps, Run};
use crate::superblock::tests::sample;

use super::super::runs;
use super::node::MAGIC;
use super::*;

const BLOCK: usize = 4096;
const EXTENTS_FLAG: u32 = 0x8_0000;

fn node(depth: u16, max: u16, entries: &[[u8; 12]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in [
        MAGIC,
        u16::try_from(entries.len()).unwrap(),
        max,
        depth,
        0,
        0,
    ] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(entries.concat());
    bytes
}

fn extent(file_block: u32, len: u16, fs_block: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&file_block.to_le_bytes());
    bytes[4..6].copy_from_slice(&len.to_le_bytes());
    bytes[8..].copy_from_slice(&fs_block.to_le_bytes());
    bytes
}

fn idx(file_block: u32, child: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&file_block.to_le_bytes());
    bytes[4..8].copy_from_slice(&child.to_le_bytes());
    bytes
}

/// Returns the runs of an inode with this root, over a device with these blocks.
fn walk(root: &[u8], blocks: &[(usize, Vec<u8>)], from: u32) -> Result<Vec<Run>> {
    let mut disk = vec![0; 1024 * BLOCK];
    for (block, bytes) in blocks {
        disk[block * BLOCK..][..bytes.len()].copy_from_slice(bytes);
    }
    let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
    let mut raw = vec![0; 256];
    raw[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
    raw[0x20..0x24].copy_from_slice(&EXTENTS_FLAG.to_le_bytes());
    raw[0x28..][..root.len()].copy_from_slice(root);
    let inode = Inode::parse(&superblock, 12, &raw).unwrap().unwrap();
    let volume = Volume::new(Arc::new(Memory::new(disk)), superblock, 1 << 20);
    runs(&volume, &inode, FileBlock(from)).collect()
}

fn says(result: Result<Vec<Run>>, what: &str) {
    let e = result.unwrap_err();
    assert!(e.to_string().contains(what), "{e} does not say: {what}");
    assert!(e.to_string().contains("inode 12"), "{e}");
}

#[test]
fn extents_in_the_inode() {
    let root = node(
        0,
        4,
        &[extent(0, 2, 100), extent(2, 3, 102), extent(9, 0x8001, 50)],
    );
    let runs = walk(&root, &[], 0).unwrap();
    assert_eq!(runs.len(), 2, "neighbours are joined");
    assert_eq!((runs[0].len_blocks, runs[0].written), (5, true));
    assert_eq!((runs[1].len_blocks, runs[1].written), (1, false));
    let runs = walk(&root, &[], 3).unwrap();
    assert_eq!(
        (runs[0].file_block, runs[0].fs_block),
        (FileBlock(3), FsBlock(103))
    );
    assert!(walk(&root, &[], 10).unwrap().is_empty());
}

#[test]
fn the_longest_extent_is_written() {
    // 32768 is both the longest written length and the bit that marks an unwritten one; the test's
    // device has no room for it.
    let extent = extent(0, 0x8000, 100);
    let run = RawExtent::ref_from_bytes(&extent).unwrap().run();
    assert_eq!((run.len_blocks, run.written), (32768, true));
}

#[test]
fn two_levels_from_any_block() {
    let root = node(1, 4, &[idx(0, 20), idx(100, 21)]);
    let blocks = [
        (20, node(0, 340, &[extent(0, 10, 200), extent(50, 10, 300)])),
        (
            21,
            node(0, 340, &[extent(100, 1, 400), extent(u32::MAX, 1, 500)]),
        ),
    ];
    let starts = |from| -> Vec<u32> {
        let runs = walk(&root, &blocks, from).unwrap();
        runs.iter().map(|run| run.file_block.0).collect()
    };
    assert_eq!(starts(0), [0, 50, 100, u32::MAX]);
    assert_eq!(starts(55), [55, 100, u32::MAX]);
    assert_eq!(starts(70), [100, u32::MAX]);
    assert_eq!(starts(101), [u32::MAX]);
}

#[test]
fn what_makes_no_sense_is_corrupt() {
    says(walk(&[0; 12], &[], 0), "magic is 0x0, expected 0xf30a");
    says(walk(&node(6, 4, &[]), &[], 0), "eh_depth is 6");
    says(walk(&node(0, 5, &[]), &[], 0), "eh_entries");
    says(walk(&node(1, 4, &[]), &[], 0), "empty");
    says(walk(&node(0, 4, &[extent(0, 0, 9)]), &[], 0), "length 0");
    says(
        walk(&node(0, 4, &[extent(0, 0x8000, 9)]), &[], 0),
        "outside",
    );
    says(walk(&node(0, 4, &[extent(0, 1, 1024)]), &[], 0), "outside");
    says(walk(&node(0, 4, &[extent(0, 1, 0)]), &[], 0), "outside");
    let unsorted = [extent(5, 2, 9), extent(6, 1, 20)];
    says(walk(&node(0, 4, &unsorted), &[], 0), "overlap");
    says(
        walk(&node(0, 4, &[extent(u32::MAX, 2, 9)]), &[], 0),
        "overlap",
    );
    says(
        walk(&node(1, 4, &[idx(5, 9), idx(5, 9)]), &[], 0),
        "out of order",
    );
    says(walk(&node(1, 4, &[idx(0, 2000)]), &[], 0), "outside");
}

#[test]
fn a_loop_ends_at_the_first_turn() {
    let own = [(20, node(1, 340, &[idx(0, 20)]))];
    says(walk(&node(1, 4, &[idx(0, 20)]), &own, 0), "depth");
    says(walk(&node(2, 4, &[idx(0, 20)]), &own, 0), "depth");
}

#[test]
fn a_child_stays_within_its_range() {
    let root = node(1, 4, &[idx(0, 20), idx(10, 20)]);
    let child = [(20, node(0, 340, &[extent(0, 1, 200)]))];
    says(walk(&root, &child, 0), "overlap");
    let child = [(20, node(0, 340, &[extent(5, 6, 200)]))];
    says(walk(&root, &child, 0), "overlap");
}

#[test]
fn the_tail_is_checked() {
    let mut superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
    superblock.checksum_seed = Some(crate::checksum::ChecksumSeed(3));
    let mut raw = vec![0; 256];
    raw[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
    let inode = Inode::parse_unchecked(&superblock, 12, &raw)
        .unwrap()
        .unwrap();
    let mut bytes = node(0, 340, &[extent(0, 1, 200)]);
    bytes.resize(BLOCK, 0);
    let sum = inode.checksum_seed.unwrap().of(&[&bytes[..12 * 341]]);
    bytes[12 * 341..].copy_from_slice(&sum.to_le_bytes());
    let structure = Structure::ExtentBlock(FsBlock(20));
    verify(&inode, structure, &bytes).unwrap();
    bytes[30] ^= 1;
    let e = verify(&inode, structure, &bytes).unwrap_err();
    assert!(
        e.to_string()
            .starts_with("invalid extent block 20: checksum"),
        "{e}"
    );
}

#[test]
fn a_file_of_too_many_runs_is_walked() {
    // Every other block, in 14 leaves of 340 extents: more than a list may have.
    let mut blocks = Vec::new();
    let mut indices = Vec::new();
    for leaf in 0..14u32 {
        let extents: Vec<_> = (0..340)
            .map(|n| extent((leaf * 340 + n) * 2, 1, 900))
            .collect();
        blocks.push((100 + usize::try_from(leaf).unwrap(), node(0, 340, &extents)));
        indices.push(idx(leaf * 680, 100 + leaf));
    }
    blocks.push((99, node(1, 340, &indices)));
    let root = node(2, 4, &[idx(0, 99)]);
    assert_eq!(walk(&root, &blocks, 0).unwrap().len(), 14 * 340);
    let last = walk(&root, &blocks, 14 * 680 - 2).unwrap();
    assert_eq!(last.len(), 1);
    let _ = FileMaps::new(0);
}
