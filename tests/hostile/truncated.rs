//! Images that are truncated at every structure.

use std::fs::File;

use diskfs_fixtures::image;

use super::program::{CORRUPT, Outcome, diskfs};

/// Truncates a copy of a fixture and reads all that is left of it.
fn cut(name: &str, len: u64) -> Outcome {
    let image = image(name);
    let file = File::options()
        .write(true)
        .open(image.path())
        .expect("write the file");
    file.set_len(len).expect("cut");
    let path = image.path().display().to_string();
    diskfs(["info", &path]).expect_message();
    let outcome = diskfs(["hash", &path]);
    outcome.expect_message();
    outcome
}

/// The header, its extensions, the starts and middles of tables, clusters.
#[test]
fn qcow2_is_cut() {
    let whole = diskfs_fixtures::fixture("demo.qcow2").size_bytes;
    let clusters = (1..whole / 65_536).map(|n| n * 65_536);
    let lens = [
        4, 8, 71, 72, 100, 103, 104, 112, 500, 65_535, 65_537, 131_071, 196_609,
    ]
    .into_iter()
    .chain(clusters)
    .chain([whole - 40_000, whole - 4096]);
    for len in lens {
        let outcome = cut("demo.qcow2", len);
        assert!(
            outcome.code != 0,
            "cut to {len} bytes, and read as if it were whole"
        );
        if len >= 72 {
            assert_eq!(
                outcome.code, CORRUPT,
                "cut to {len} bytes: {}",
                outcome.stderr
            );
        }
    }
}

/// The superblock, group descriptors, bitmaps, inode table, directories, data.
#[test]
fn ext4_is_cut() {
    for len in [1024, 1025, 1100, 1536, 2047] {
        let outcome = cut("ext4-default", len);
        assert!(outcome.code != 0, "cut to {len} bytes");
    }
    let whole = diskfs_fixtures::fixture("ext4-default").size_bytes;
    let blocks = [
        2048,
        4095,
        4096,
        4097,
        8192,
        20_480,
        65_536,
        262_144,
        524_288,
        1 << 20,
    ];
    for len in blocks
        .into_iter()
        .chain([whole / 2, whole - 4096, whole - 1])
    {
        let outcome = cut("ext4-default", len);
        assert_eq!(
            outcome.code, CORRUPT,
            "cut to {len} bytes: {}",
            outcome.stderr
        );
    }
}

#[test]
fn partitioned_disks_are_cut() {
    for name in ["gpt.raw", "mbr-logical.raw", "gpt-4k.raw"] {
        for len in [
            0,
            1,
            511,
            512,
            1023,
            1024,
            17_408,
            1 << 20,
            5 << 20,
            8 << 20,
        ] {
            cut(name, len);
        }
    }
}
