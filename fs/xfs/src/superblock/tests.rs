//! Tests of the superblock with one that is built by hand.

use super::*;
use diskfs_vfs::ErrorKind;

/// The number of blocks of [`sample`].
const BLOCKS: u64 = 4096;

/// Changes the sector of a valid superblock, and sets its checksum anew.
pub(crate) fn changed(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = sample();
    for (offset, value) in changes {
        bytes[*offset..offset + value.len()].copy_from_slice(value);
    }
    let crc = checksum::checksum(&bytes, raw::CRC_OFFSET);
    bytes[224..228].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns the sector of a valid superblock of version 5: four groups of 1024 blocks of 4 KiB.
pub(crate) fn sample() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let mut put = |offset: usize, value: &[u8]| {
        bytes[offset..offset + value.len()].copy_from_slice(value);
    };
    put(0, b"XFSB");
    put(4, &4096_u32.to_be_bytes());
    put(8, &BLOCKS.to_be_bytes());
    put(32, b"sixteen bytes id");
    put(48, &((2_u64 << 10) + 16).to_be_bytes());
    put(56, &128_u64.to_be_bytes());
    put(84, &1024_u32.to_be_bytes());
    put(88, &4_u32.to_be_bytes());
    put(96, &512_u32.to_be_bytes());
    put(100, &0xb4a5_u16.to_be_bytes());
    put(102, &512_u16.to_be_bytes());
    put(104, &512_u16.to_be_bytes());
    put(106, &8_u16.to_be_bytes());
    put(108, b"root");
    put(120, &[12, 9, 9, 3, 10, 0, 0, 25]);
    put(200, &0x18a_u32.to_be_bytes());
    put(216, &0x3_u32.to_be_bytes());
    let crc = checksum::checksum(&bytes, raw::CRC_OFFSET);
    bytes[224..228].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Result<Superblock> {
    Superblock::parse(bytes, BLOCKS * 4096)
}

#[test]
fn geometry() {
    let s = parse(&sample()).unwrap();
    assert_eq!((s.block_bytes, s.ag_blocks, s.ag_count), (4096, 1024, 4));
    assert_eq!(s.label(), b"root");
    assert_eq!(s.byte_of(FsBlock(1 << 10)), Some(1024 * 4096));
    assert_eq!(s.byte_of(FsBlock(4 << 10)), None);
    assert_eq!(s.run_bytes(FsBlock(1023), 1), Some(1023 * 4096));
    assert_eq!(s.run_bytes(FsBlock(1023), 2), None);
    assert_eq!(s.inode_place(128), Some((0, 128)));
    assert_eq!(s.inode_place(1 << 15), None);
    assert_eq!(s.inode_place(u64::MAX), None);
}

#[test]
fn wrong_fields_are_corrupt() {
    let cases: [(usize, &[u8]); 12] = [
        (4, &[0; 4]),
        (8, &u64::MAX.to_be_bytes()),
        (48, &u64::MAX.to_be_bytes()),
        (56, &u64::MAX.to_be_bytes()),
        (84, &[0; 4]),
        (88, &5_u32.to_be_bytes()),
        (104, &[1, 0]),
        (106, &[0, 9]),
        (124, &[11]),
        (126, &[1]),
        (192, &[9]),
        (216, &0x13_u32.to_be_bytes()),
    ];
    for (offset, value) in cases {
        let e = parse(&changed(&[(offset, value)])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{offset}: {e}");
        assert!(e.next_step().is_some(), "{e}");
    }
    let mut bytes = sample();
    bytes[130] ^= 1;
    assert!(parse(&bytes).unwrap_err().reason().contains("checksum"));
    for len in 0..512 {
        assert!(parse(&sample()[..len]).is_err());
    }
}

#[test]
fn other_versions_are_unsupported() {
    for version in [1, 2, 3, 6, 15] {
        let word = (0xb4a0_u16 | version).to_be_bytes();
        let e = parse(&changed(&[(100, &word)])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{version}");
    }
}
