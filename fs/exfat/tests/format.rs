//! Tests of new filesystems, compared with those of `mkfs.exfat`.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use diskfs_block::{BlockRead, File, Memory};
use diskfs_exfat::{Exfat, FormatOptions, WritableExfat, WriteOptions, format};
use diskfs_fixtures::require;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

use common::{fsck, tree};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Returns an image of this size with old contents at both ends.
fn scribbled(size_bytes: u64) -> tempfile::NamedTempFile {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(size_bytes).unwrap();
    for at in [0, size_bytes - 64 * KIB] {
        image
            .as_file()
            .write_all_at(&vec![0xaa; 64 << 10], at)
            .unwrap();
    }
    image
}

/// Returns the layout fields of the boot sector: all but the serial number.
fn geometry(image: &tempfile::NamedTempFile) -> Vec<u8> {
    let mut bytes = [0; 112];
    image.as_file().read_exact_at(&mut bytes, 0).unwrap();
    [&bytes[..100], &bytes[104..]].concat()
}

#[test]
fn every_size_is_laid_out_as_mkfs_does_it() {
    if require("fsck.exfat").is_none() || require("mkfs.exfat").is_none() {
        return;
    }
    let cases = [
        3 * MIB,
        5 * MIB + 512,
        8 * MIB,
        100 * MIB,
        255 * MIB,
        256 * MIB,
        257 * MIB,
        2 * GIB,
        31 * GIB,
        32 * GIB,
        33 * GIB,
        64 * GIB,
    ];
    for size_bytes in cases {
        let theirs = scribbled(size_bytes);
        let made = diskfs_fixtures::command("mkfs.exfat")
            .arg(theirs.path())
            .output();
        assert!(made.unwrap().status.success());
        let ours = scribbled(size_bytes);
        let device = File::open_read_write(ours.path()).unwrap();
        format(&device, &FormatOptions::default()).unwrap();
        assert_eq!(geometry(&ours), geometry(&theirs), "{size_bytes}");
        fsck("fsck.exfat", ours.path());
    }
}

#[test]
fn what_is_asked_for_is_made() {
    let cases = [
        (MIB, 512, None, ""),
        (MIB + 3 * KIB, 1024, Some(1024), "a"),
        (4 * MIB, 512, Some(512), "Gr\u{fc}\u{df}e"),
        (20 * MIB, 4096, None, "elf letters"),
        (
            200 * MIB,
            2048,
            Some(64 << 10),
            "\u{1f4be}\u{1f4be}\u{1f4be}\u{1f4be}\u{1f4be}!",
        ),
        (GIB, 512, Some(32 << 20), "large"),
    ];
    for (size_bytes, sector_bytes, cluster_bytes, label) in cases {
        let image = scribbled(size_bytes);
        let device = Arc::new(File::open_read_write(image.path()).unwrap());
        let options = FormatOptions {
            label: label.to_owned(),
            volume_id: 0x1234_abcd,
            cluster_bytes,
            sector_bytes,
            hidden_sectors: 2048,
        };
        format(&*device, &options).unwrap();
        let identity = Exfat::open(device.clone()).unwrap().identity();
        assert_eq!(identity.label, label.as_bytes());
        assert_eq!(identity.uuid.as_deref(), Some("1234-ABCD"));
        assert_eq!(identity.notes, Vec::<String>::new());
        let free = Exfat::open(device.clone()).unwrap().statistics().unwrap();
        let fs = WritableExfat::open(device.clone(), &WriteOptions::default()).unwrap();
        let any = NewAttributes::for_root(0o644);
        let dir = fs
            .create(fs.root(), b"dir", NewKind::Directory, &any)
            .unwrap();
        let file = fs.create(dir, b"a file", NewKind::Regular, &any).unwrap();
        fs.write_at(file, 0, &[7; 9_000]).unwrap();
        let made = tree(&fs);
        fs.close().unwrap();
        let again = Exfat::open(device.clone()).unwrap();
        assert_eq!(tree(&again), made);
        let left = again.statistics().unwrap();
        assert!(left.blocks_free < free.blocks_free && left.blocks == free.blocks);
        // exfatprogs take the sector size from the device, and 512 for a file.
        if sector_bytes == 512 && require("fsck.exfat").is_some() {
            fsck("fsck.exfat", image.path());
        }
        // The backup boot region must be valid, too.
        let mut bytes = vec![0; usize::try_from(MIB).unwrap()];
        device.read_at(0, &mut bytes).unwrap();
        let (main, backup) = bytes.split_at(12 * usize::try_from(sector_bytes).unwrap());
        // The flags and the percentage in use may differ.
        assert_eq!(main[113..], backup[113..main.len()]);
    }
}

#[test]
fn what_has_no_room_or_no_such_label_is_refused() {
    let refused = |len: usize, options: FormatOptions| {
        let device = Memory::new(vec![1; len]);
        let e = format(&device, &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
        assert_eq!(device.to_vec(), vec![1; len]);
    };
    let label = |label: &str| FormatOptions {
        label: label.to_owned(),
        ..FormatOptions::default()
    };
    refused(1 << 21, label("twelve chars"));
    refused(
        1 << 21,
        label("six\u{1f4be}\u{1f4be}\u{1f4be}\u{1f4be}\u{1f4be}"),
    );
    refused(1 << 21, label("a\nb"));
    refused((1 << 20) - 1, FormatOptions::default());
    for (sector_bytes, cluster_bytes) in [
        (256, None),
        (8192, None),
        (512, Some(256)),
        (512, Some(3000)),
        (512, Some(64 << 20)),
        (4096, Some(2048)),
        (512, Some(1 << 20)),
    ] {
        let options = FormatOptions {
            sector_bytes,
            cluster_bytes,
            ..FormatOptions::default()
        };
        refused(1 << 20, options);
    }
}
