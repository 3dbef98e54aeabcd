//! Tests of new filesystems, checked with `fsck.vfat` and mtools.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Memory};
use diskfs_fat::{Fat, FatKind, FormatOptions, WritableFat, WriteOptions, format};
use diskfs_fixtures::require;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

use common::{fsck, mtools_tree, tree};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Formats a file of this size, writes files to it, and runs the checkers.
fn check(size_bytes: u64, options: &FormatOptions, features: &str) {
    let case = format!("{size_bytes} {options:?}");
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(size_bytes).unwrap();
    let device = Arc::new(File::open_read_write(image.path()).unwrap());
    // Old contents where the formatter puts its structures.
    device.write_at(0, &vec![0xa5; 600 << 10]).unwrap();
    format(&*device, options).unwrap();
    fsck("fsck.vfat", image.path());
    let identity = Fat::open(device.clone()).unwrap().identity();
    assert_eq!(identity.features, [features], "{case}");
    assert_eq!(identity.label, b"MY ESP", "{case}");
    assert_eq!(identity.uuid.as_deref(), Some("1234-ABCD"), "{case}");
    let fs = WritableFat::open(device, &WriteOptions::default()).unwrap();
    let any = NewAttributes::for_root(0o644);
    let dir = fs.create(fs.root(), b"EFI", NewKind::Directory, &any);
    let dir = dir.unwrap();
    let file = fs.create(dir, b"a file", NewKind::Regular, &any).unwrap();
    fs.write_at(file, 0, &vec![7; 100_000]).unwrap();
    fs.close().unwrap();
    fsck("fsck.vfat", image.path());
    assert_eq!(mtools_tree(image.path()), tree(&fs), "{case}");
}

fn options(kind: impl Into<Option<FatKind>>) -> FormatOptions {
    FormatOptions {
        kind: kind.into(),
        label: "my esp".to_owned(),
        volume_id: 0x1234_abcd,
        hidden_sectors: 2048,
        ..FormatOptions::default()
    }
}

#[test]
fn every_size_is_what_fsck_takes_it_for() {
    if require("fsck.vfat").is_none() || require("mcopy").is_none() {
        return;
    }
    let cases = [
        (MIB, None, "FAT12"),
        (1440 * KIB, Some(FatKind::Fat12), "FAT12"),
        (100 * MIB, Some(FatKind::Fat12), "FAT12"),
        (9 * MIB, None, "FAT16"),
        (500 * MIB, None, "FAT16"),
        (3 * MIB, Some(FatKind::Fat16), "FAT16"),
        (40 * MIB, Some(FatKind::Fat32), "FAT32"),
        (300 * MIB, Some(FatKind::Fat32), "FAT32"),
        (512 * MIB, None, "FAT32"),
        (3000 * MIB + 512, None, "FAT32"),
        (9000 * MIB, None, "FAT32"),
    ];
    for (size_bytes, kind, features) in cases {
        check(size_bytes, &options(kind), features);
    }
}

#[test]
fn sectors_and_clusters_can_be_chosen() {
    if require("fsck.vfat").is_none() || require("mcopy").is_none() {
        return;
    }
    let with = |kind, sector_bytes, cluster_bytes| FormatOptions {
        sector_bytes,
        cluster_bytes,
        ..options(kind)
    };
    check(20 * MIB, &with(FatKind::Fat16, 1024, None), "FAT16");
    check(300 * MIB, &with(FatKind::Fat32, 4096, None), "FAT32");
    check(600 * MIB, &with(FatKind::Fat32, 512, Some(8192)), "FAT32");
    check(600 * MIB, &with(FatKind::Fat16, 512, Some(16384)), "FAT16");
}

#[test]
fn the_geometry_is_that_of_mkfs_vfat() {
    if require("mkfs.vfat").is_none() {
        return;
    }
    // The cluster size and the number of tables: bytes 11 to 13 and 16.
    let geometry = |bytes: &[u8]| [bytes[11], bytes[12], bytes[13], bytes[16]];
    for size_bytes in [64 * MIB, 600 * MIB, 9000 * MIB, 40_000 * MIB] {
        let [theirs, ours] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        for file in [&theirs, &ours] {
            file.as_file().set_len(size_bytes).unwrap();
        }
        let mut mkfs = diskfs_fixtures::command("mkfs.vfat");
        let made = mkfs.arg(theirs.path()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let device = File::open_read_write(ours.path()).unwrap();
        format(&device, &FormatOptions::default()).unwrap();
        let [theirs, ours] = [theirs, ours].map(|file| {
            let mut bytes = [0; 512];
            let device = File::open(file.path()).unwrap();
            device.read_at(0, &mut bytes).unwrap();
            geometry(&bytes)
        });
        assert_eq!(ours, theirs, "{size_bytes}");
    }
}

#[test]
fn what_has_no_room_or_no_label_is_refused() {
    let device = Memory::new(vec![1; 64 << 10]);
    let refused = |options: FormatOptions| {
        let e = format(&device, &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
    };
    refused(options(FatKind::Fat16));
    for label in ["TWELVE CHARS", "A*B", " A", "é"] {
        refused(FormatOptions {
            label: label.to_owned(),
            ..options(None)
        });
    }
    for (sector_bytes, cluster_bytes) in [
        (0, None),
        (513, None),
        (8192, None),
        (512, Some(0)),
        (512, Some(1000)),
        (512, Some(256)),
        (512, Some(1 << 31)),
    ] {
        refused(FormatOptions {
            sector_bytes,
            cluster_bytes,
            ..options(None)
        });
    }
    assert_eq!(device.to_vec(), vec![1; 64 << 10]);
}
