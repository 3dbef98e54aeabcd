//! Wishes that are refused: by name, and before anything is written.

use std::sync::Arc;

use diskfs_block::{Faulty, Memory};
use diskfs_ext4::format;
use diskfs_vfs::ErrorKind;

use crate::options::parse;

#[test]
fn wishes_that_cannot_be_fulfilled_are_named() {
    const MIB: usize = 1 << 20;
    for (args, size, says) in [
        ("-t ext4", 10 << 10, "the device is too small"),
        ("-t ext4", 0, "too small"),
        ("-t ext4 -b 3000", 8 * MIB, "invalid block size 3000"),
        ("-t ext4 -b 512", 8 * MIB, "invalid block size 512"),
        ("-t ext4 -I 100", 8 * MIB, "invalid inode size 100"),
        (
            "-t ext4 -I 2048 -b 1024",
            8 * MIB,
            "invalid inode size 2048",
        ),
        ("-t ext4 -I 128 -O inline_data", 8 * MIB, "`inline_data`"),
        ("-t ext4 -I 128 -O project", 8 * MIB, "`project`"),
        (
            "-t ext4 -i 100",
            8 * MIB,
            "invalid number of bytes for each inode",
        ),
        ("-t ext4 -N 0", 8 * MIB, "invalid number of inodes 0"),
        ("-t ext4 -N 100000", 8 * MIB, "do not fit"),
        ("-t ext4 -g 100", 8 * MIB, "invalid group size 100"),
        (
            "-t ext4 -g 1001 -b 1024",
            8 * MIB,
            "invalid group size 1001",
        ),
        ("-t ext4 -G 3", 8 * MIB, "invalid size of flexible groups 3"),
        ("-t ext2 -G 4", 8 * MIB, "requires the feature `flex_bg`"),
        (
            "-t ext4 -C 16384",
            8 * MIB,
            "requires the feature `bigalloc`",
        ),
        (
            "-t ext4 -O bigalloc -C 512",
            8 * MIB,
            "invalid cluster size 512",
        ),
        (
            "-t ext4 -E desc_size=48",
            8 * MIB,
            "invalid descriptor size 48",
        ),
        (
            "-t ext2 -E desc_size=64",
            8 * MIB,
            "requires the feature `64bit`",
        ),
        (
            "-t ext4 -E num_backup_sb=3 -O sparse_super2",
            8 * MIB,
            "backup superblocks 3",
        ),
        ("-t ext4 -E resize=4m", 8 * MIB, "`resize`"),
        ("-t ext4 -J size=8", 8 * MIB, "the journal is too large"),
        (
            "-t ext4 -J size=1 -b 4096",
            64 * MIB,
            "invalid journal size of 256 blocks",
        ),
        ("-t ext4 -J size=1", MIB, "too small for a journal"),
        (
            "-t ext4 -L a-label-that-is-too-long",
            8 * MIB,
            "invalid label",
        ),
        ("-t ext4 -O ^extent", 8 * MIB, "`64bit` requires `extent`"),
    ] {
        let device = Faulty::new(Arc::new(Memory::new(vec![0xa5; size])), []);
        let e = format(&device, &parse(args)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{args}: {e}");
        assert!(e.to_string().contains(says), "{args}: {e}");
        assert_eq!(device.logged(), 0, "{args}: something was written");
    }
}
