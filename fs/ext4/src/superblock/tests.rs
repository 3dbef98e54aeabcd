use super::*;
use crate::checksum::crc32c;

/// Returns a superblock of a small ext4 without checksums: 4 KiB blocks, one group of 1024 blocks,
/// 256 inodes of 256 bytes.
pub(crate) fn sample() -> [u8; 1024] {
    let mut bytes = [0; 1024];
    for (offset, value) in [
        (0x0, 256u32),
        (0x4, 1024),
        (0x18, 2),
        (0x1c, 2),
        (0x20, 32768),
        (0x24, 32768),
        (0x28, 256),
        (0x38, 0x0001_ef53),
        (0x4c, 1),
        (0x54, 11),
        (0x58, 256),
        (0x5c, 0x20),
        (0x60, 0x42),
    ] {
        put(&mut bytes, offset, value);
    }
    bytes
}

fn put(bytes: &mut [u8; 1024], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

fn with(changes: &[(usize, u32)]) -> Result<Superblock> {
    let mut bytes = sample();
    for &(offset, value) in changes {
        put(&mut bytes, offset, value);
    }
    Superblock::parse(&bytes, 4 << 20)
}

#[test]
fn a_sound_one_is_read() {
    let s = with(&[]).unwrap();
    assert_eq!(s.block_size.bytes(), 4096);
    assert_eq!(s.groups_count, 1);
    assert_eq!(s.inodes_per_block(), 16);
    assert_eq!(s.inode_table_blocks(), 16);
    assert_eq!(s.descriptors_per_block(), 128);
    assert!(s.state.clean);
    assert!(s.holds(FsBlock(1), 1023));
    assert!(!s.holds(FsBlock(0), 1));
    assert!(!s.holds(FsBlock(1023), 2));
    assert!(!s.holds(FsBlock(u64::MAX), 2));
}

#[test]
fn what_makes_no_sense_is_corrupt() {
    let cases: [(usize, u32, &str); 14] = [
        (0x38, 0x1234, "magic"),
        (0x18, 7, "s_log_block_size"),
        (0x18, u32::MAX, "s_log_block_size"),
        (0x20, 0, "s_blocks_per_group"),
        (0x20, 32769, "s_blocks_per_group"),
        (0x28, 0, "s_inodes_per_group"),
        (0x28, 40000, "s_inodes_per_group"),
        (0x0, 255, "s_inodes_count"),
        (0x4, 0, "s_first_data_block"),
        (0x4, 1025, "bad geometry"),
        (0x14, 2, "s_first_data_block"),
        (0x58, 300, "s_inode_size"),
        (0x58, 8192, "s_inode_size"),
        (0x54, 3, "s_first_ino"),
    ];
    for (offset, value, says) in cases {
        let e = with(&[(offset, value)]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        assert!(e.to_string().contains(says), "{e} does not say {says}");
    }
}

#[test]
fn huge_counts_do_not_wrap() {
    let e = with(&[
        (0x60, 0xc2),
        (0x150, u32::MAX),
        (0x4, u32::MAX),
        (0xfc, 64 << 16),
    ]);
    assert!(e.unwrap_err().to_string().contains("bad geometry"));
}

#[test]
fn what_is_not_known_is_unsupported_by_name() {
    let e = with(&[(0x60, 0x8000_0042)]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("FEATURE_I31"), "{e}");
    assert_eq!(
        with(&[(0x60, 0x8)]).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(
        with(&[(0x4c, 2)]).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn a_wrong_checksum_is_corrupt_and_says_both_values() {
    let mut bytes = sample();
    put(&mut bytes, 0x64, 0x400);
    put(&mut bytes, 0x174, 1 << 8);
    let right = crc32c(u32::MAX, &bytes[..0x3fc]);
    put(&mut bytes, 0x3fc, right);
    let s = Superblock::parse(&bytes, 4 << 20).unwrap();
    assert_eq!(s.checksum_seed, Some(ChecksumSeed::of_uuid(&[0; 16])));
    put(&mut bytes, 0x3fc, right ^ 1);
    let e = Superblock::parse(&bytes, 4 << 20).unwrap_err().to_string();
    assert!(
        e.contains(&format!("{right:#x}")) && e.contains(&format!("{:#x}", right ^ 1)),
        "{e}"
    );
}

#[test]
fn a_backup_is_named_and_not_used() {
    let mut disk = vec![0; 132 << 20];
    let mut backup = sample();
    put(&mut backup, 0x58, 256 | (1 << 16));
    disk[32768 * 4096..][..1024].copy_from_slice(&backup);
    let e = Superblock::read(&diskfs_block::Memory::new(disk)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("e2fsck -b 32768 -B 4096"), "{e}");
}
