//! Random options: the filesystem is valid, or the options are refused.

use std::fs;

use diskfs_block::{BlockWrite, File};
use diskfs_ext4::format;
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

use crate::common::{Random, e2fsck, open_for_writing};
use crate::options::parse;

/// The options that are chosen from, each group with the same probability; an empty text leaves the
/// default.
const CHOICES: [&[&str]; 12] = [
    &["-t ext4", "-t ext4", "-t ext4", "-t ext3", "-t ext2"],
    &[
        "", "", "-b 1024", "-b 1024", "-b 2048", "-b 4096", "-b 8192", "-b 65536",
    ],
    &["", "", "", "-I 128", "-I 512", "-I 1024"],
    &[
        "",
        "",
        "",
        "-i 1024",
        "-i 8192",
        "-i 1000000",
        "-N 12",
        "-N 5000",
    ],
    &["", "", "", "-g 256", "-g 1024", "-g 4096", "-g 8000"],
    &["", "", "", "", "-G 1", "-G 2", "-G 8", "-G 64"],
    &["", "-m 0", "-m 50"],
    &[
        "",
        "-O bigalloc",
        "-O bigalloc -C 16384",
        "-O meta_bg,^resize_inode",
        "-O sparse_super2",
        "-O sparse_super2,^resize_inode",
        "-O ^sparse_super,^resize_inode",
    ],
    &[
        "",
        "-O ^metadata_csum",
        "-O ^metadata_csum,uninit_bg",
        "-O ^64bit",
        "-O ^64bit,^extent",
        "-O ^flex_bg",
        "-O ^resize_inode",
    ],
    &[
        "",
        "-O inline_data",
        "-O ea_inode,large_dir",
        "-O fast_commit",
        "-O ^filetype,^dir_index",
    ],
    &[
        "",
        "-E packed_meta_blocks=1",
        "-E stride=3,stripe_width=9",
        "-E lazy_itable_init=0",
        "-E lazy_journal_init=1",
        "-E num_backup_sb=1",
        "-E desc_size=256",
        "-E resize=1g",
        "-E orphan_file_size=50",
    ],
    &[
        "",
        "-J size=4",
        "-J location=3m",
        "-O ^has_journal",
        "-O ^orphan_file",
    ],
];

/// The sizes in KiB.
const SIZES_KIB: [u64; 10] = [60, 100, 360, 1440, 2051, 5000, 9001, 20_000, 33_000, 70_001];

/// Returns the number of cases; 600 take a minute and a half.
fn cases() -> u64 {
    std::env::var("DISKFS_FORMAT_CASES").map_or(40, |value| value.parse().unwrap())
}

#[test]
fn random_options_give_a_valid_filesystem_or_an_error() {
    if !have(&["e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut made = 0;
    for case in 0..cases() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ ((case + 1) * 0x1234_5677));
        let chosen: Vec<_> = CHOICES.map(|group| group[random.below(group.len())]).into();
        let args = chosen.join(" ");
        let len = SIZES_KIB[random.below(SIZES_KIB.len())] << 10;
        fs::write(&path, vec![0xa5; usize::try_from(len).unwrap()]).unwrap();
        let device = File::open_read_write(&path).unwrap();
        if let Err(e) = format(&device, &parse(&args)) {
            assert_eq!(e.kind(), ErrorKind::Invalid, "{args}: {e}");
            continue;
        }
        made += 1;
        device.flush().unwrap();
        let checked = std::panic::catch_unwind(|| e2fsck(&path));
        assert!(checked.is_ok(), "case {case}: {args}, {len} bytes");
        if !args.contains("fast_commit") {
            fill(&path, &format!("case {case}: {args}, {len} bytes"));
        }
    }
    assert!(made * 3 > cases(), "{made} filesystems of {}", cases());
}

/// Creates a few files, as far as there is space.
fn fill(path: &std::path::Path, what: &str) {
    let fs = open_for_writing(path);
    for n in 0..30u8 {
        let name = format!("file-{n}");
        let attributes = NewAttributes::for_root(0o644);
        let file = fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes);
        let written = file.and_then(|file| fs.write_at(file, 0, &vec![n; 20_000]));
        if let Err(e) = written {
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{what}: {e}");
            break;
        }
    }
    fs.close().unwrap_or_else(|e| panic!("{what}: {e}"));
    let checked = std::panic::catch_unwind(|| e2fsck(path));
    assert!(checked.is_ok(), "{what}: after writing");
}
