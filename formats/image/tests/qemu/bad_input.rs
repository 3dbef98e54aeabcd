//! Images that are broken, accidentally or maliciously: opening fails at once, with a clear error
//! and its place.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskfs_block::{Error, ErrorKind};
use diskfs_image::{Format, Image, OpenOptions};

use crate::hand_made::{CLUSTER, DATA, DISK, HandMade, L1, L2};

fn written(dir: &Path, image: &HandMade) -> PathBuf {
    let path = dir.join("disk.qcow2");
    image.write(&path);
    path
}

/// A limit far above the second that an optimised build needs: the faults to catch would run almost
/// endlessly.
const DEADLINE: Duration = Duration::from_secs(15);

/// Opens and reads everything, within the time limit.
fn use_all(path: &Path, options: &OpenOptions) -> Result<Vec<u8>, Error> {
    let start = Instant::now();
    let result = (|| {
        let image = Image::open(path, options)?;
        let device = image.device();
        let mut all = vec![0x5a; usize::try_from(device.size_bytes().min(DISK)).unwrap()];
        device.read_at(0, &mut all)?;
        device.will_need(0, u64::MAX);
        image.map().collect::<Result<Vec<_>, _>>()?;
        Ok(all)
    })();
    assert!(start.elapsed() < DEADLINE);
    result
}

/// Returns the error after a change to the good image.
#[track_caller]
fn broken(change: impl FnOnce(&mut HandMade)) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    change(&mut image);
    let path = written(dir.path(), &image);
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    };
    let e = use_all(&path, &options)
        .map(|_| ())
        .expect_err("opens and reads");
    assert_eq!(e.path(), Some(path.as_path()), "{e}");
    assert!(e.offset().is_some(), "{e}");
    e
}

#[track_caller]
fn is(e: &Error, kind: ErrorKind, text: &str) {
    assert_eq!(e.kind(), kind, "{e}");
    assert!(e.to_string().contains(text), "{e}");
}

#[test]
fn the_good_image_is_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &HandMade::new());
    let all = use_all(&path, &OpenOptions::default()).unwrap();
    assert_eq!(all[..CLUSTER], vec![0x11; CLUSTER]);
    assert_eq!(all[CLUSTER..2 * CLUSTER], vec![0; CLUSTER]);
    assert_eq!(all[2 * CLUSTER..3 * CLUSTER], vec![0x22; CLUSTER]);
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    assert!(image.description().probed);
    assert_eq!(image.description().warnings, Vec::<String>::new());
}

#[test]
fn cut_short_anywhere() {
    // Truncations within each structure: header, L1, L2, data.
    for len in [4, 71, 100, 103, L1 + 4, L2 + 100, DATA - 1] {
        let e = broken(|image| image.bytes.truncate(len));
        is(&e, ErrorKind::Corrupt, "");
    }
    // A file may end within its last cluster; the missing bytes are zeroes.
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    image.bytes.truncate(DATA + CLUSTER + 100);
    let all = use_all(&written(dir.path(), &image), &OpenOptions::default()).unwrap();
    assert_eq!(all[2 * CLUSTER + 99..][..2], [0x22, 0]);
    let e = broken(|image| image.bytes.truncate(DATA + CLUSTER));
    is(&e, ErrorKind::Corrupt, "past the end");
    assert_eq!(e.offset(), Some((DATA + CLUSTER) as u64));
}

#[test]
fn header_fields_out_of_range() {
    #[track_caller]
    fn corrupt(change: fn(&mut HandMade), text: &str) {
        is(&broken(change), ErrorKind::Corrupt, text);
    }
    corrupt(|i| i.set32(20, 8), "2^8");
    corrupt(|i| i.set32(20, 22), "2^22");
    corrupt(|i| i.set32(20, u32::MAX), "cluster size");
    corrupt(|i| i.set64(24, 1 << 63), "L1 table");
    corrupt(|i| i.set64(24, u64::MAX), "L1 table");
    corrupt(|i| i.set32(36, u32::MAX), "QEMU's limit");
    corrupt(|i| i.set32(36, 0), "needs 1");
    corrupt(|i| i.set64(40, 1 << 62), "past the end");
    corrupt(|i| i.set64(40, 0xffff_ffff_ffff_0000), "past the end");
    corrupt(|i| i.set64(40, 513), "start of a cluster");
    corrupt(|i| i.set64(48, 513), "start of a cluster");
    corrupt(|i| i.set32(56, u32::MAX), "refcount table");
    corrupt(|i| i.set32(60, 65537), "too many snapshots: 65537");
    corrupt(
        |i| {
            i.set32(60, 65536);
            i.set64(64, 0x5_0000);
        },
        "snapshot",
    );
    corrupt(
        |i| {
            i.set32(60, 1);
            i.set64(64, 1 << 56);
        },
        "past the end",
    );
    corrupt(|i| i.set32(96, 7), "refcount order");
    corrupt(|i| i.set32(100, 96), "header length");
    corrupt(|i| i.set32(100, 0xffff_fff8), "exceeds the first cluster");
    corrupt(|i| i.set64(8, 1 << 40), "first cluster");
    corrupt(
        |i| {
            i.set64(8, 65000);
            i.set32(16, 1000);
        },
        "first cluster",
    );
    corrupt(
        |i| {
            i.set64(8, 4096);
            i.set32(16, 1024);
        },
        "1024 bytes",
    );
    corrupt(
        |i| {
            i.set32(112, 7);
            i.set32(116, 65536);
        },
        "header extension 0x00000007",
    );
}

#[test]
fn features_that_are_not_known() {
    let e = broken(|image| {
        image.set64(72, 1 << 40);
        let mut name = [0; 48];
        name[1] = 40;
        name[2..12].copy_from_slice(b"time shift");
        image.add_extension(0x6803_f857, &name);
    });
    is(&e, ErrorKind::Unsupported, "time shift (bit 40)");
    is(
        &broken(|i| i.set64(72, 1 << 63)),
        ErrorKind::Unsupported,
        "bit 63",
    );
    is(
        &broken(|i| i.set32(4, 4)),
        ErrorKind::Unsupported,
        "version 4",
    );
    is(&broken(|i| i.set32(32, 1)), ErrorKind::Unsupported, "AES");
    is(&broken(|i| i.set32(32, 2)), ErrorKind::Corrupt, "LUKS");
    is(
        &broken(|i| i.set64(72, 1 << 3)),
        ErrorKind::Corrupt,
        "compression type",
    );
    is(
        &broken(|i| i.bytes[104] = 1),
        ErrorKind::Corrupt,
        "compression type",
    );
    let e = broken(|i| {
        i.set64(72, 1 << 3);
        i.bytes[104] = 9;
    });
    is(&e, ErrorKind::Unsupported, "compression type 9");
}

#[test]
fn dirty_and_corrupt_images_are_read_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    image.set64(72, 0b11);
    let path = written(dir.path(), &image);
    use_all(&path, &OpenOptions::default()).unwrap();
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    let details = image.description().qcow2.as_ref().unwrap();
    assert!(details.dirty && details.corrupt);
    assert_eq!(details.features, ["dirty bit", "corrupt bit"]);
    assert_eq!(image.description().warnings.len(), 2);
}

#[test]
fn tables_that_point_nowhere() {
    #[track_caller]
    fn corrupt(change: fn(&mut HandMade), at: usize) {
        let e = broken(change);
        let place = (e.kind(), e.offset());
        assert_eq!(place, (ErrorKind::Corrupt, Some(at as u64)), "{e}");
    }
    corrupt(|i| i.set64(L1, L2 as u64 + 512), L1);
    corrupt(|i| i.set64(L1, L2 as u64 | 1), L1);
    corrupt(|i| i.set64(L1, 1 << 55), 1 << 55);
    corrupt(|i| i.set64(L2 + 8, DATA as u64 + 512), L2 + 8);
    corrupt(|i| i.set64(L2 + 8, DATA as u64 | 2), L2 + 8);
    corrupt(|i| i.set64(L2 + 8, 1 << 58), L2 + 8);
    corrupt(|i| i.set64(L2 + 8, 1 << 55), 1 << 55);
    // A compressed cluster past the end of the file, and one with garbage.
    corrupt(|i| i.set64(L2 + 8, (1 << 62) | (1 << 50)), 1 << 50);
    corrupt(|i| i.set64(L2 + 8, (1 << 62) | DATA as u64), DATA);
}

#[test]
fn snapshots_that_are_not_there_or_broken() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    let options = OpenOptions {
        snapshot: Some("before".to_owned()),
        ..OpenOptions::default()
    };
    let e = use_all(&written(dir.path(), &image), &options).unwrap_err();
    is(&e, ErrorKind::NotFound, "no such snapshot: `before`");
    // A snapshot table in cluster 5, with an L1 table past the end of the file.
    image.set32(60, 1);
    image.set64(64, DATA as u64);
    image.bytes[DATA..DATA + 64].fill(0);
    image.set64(DATA, 1 << 40);
    image.set32(DATA + 8, 1);
    image.set32(DATA + 12, (1 << 16) | 6);
    image.bytes[DATA + 40..DATA + 47].copy_from_slice(b"1before");
    let path = written(dir.path(), &image);
    use_all(&path, &OpenOptions::default()).unwrap();
    let e = use_all(&path, &options).unwrap_err();
    is(&e, ErrorKind::Corrupt, "past the end");
    let raw = OpenOptions {
        format: Some(Format::Raw),
        ..options
    };
    let e = use_all(&path, &raw).unwrap_err();
    is(&e, ErrorKind::Invalid, "raw image");
}

/// Bitmaps are listed but not needed: a fault in them is a warning.
#[test]
fn bitmaps_that_are_void_or_broken() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    let mut extension = [0; 24];
    extension[3] = 1;
    extension[15] = 32;
    extension[16..24].copy_from_slice(&(1_u64 << 40).to_be_bytes());
    image.add_extension(0x2385_2875, &extension);
    for (autoclear, text) in [(0, "void"), (1, "past the end")] {
        image.set64(88, autoclear);
        let path = written(dir.path(), &image);
        use_all(&path, &OpenOptions::default()).unwrap();
        let opened = Image::open(&path, &OpenOptions::default()).unwrap();
        let warnings = &opened.description().warnings;
        assert!(warnings.iter().any(|w| w.contains(text)), "{warnings:?}");
    }
    let e = broken(|i| i.add_extension(0x2385_2875, &[0; 8]));
    is(&e, ErrorKind::Corrupt, "bitmaps extension");
}

#[test]
fn a_huge_empty_disk_is_no_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    // 4 Mi entries of 512 MiB each, the most that the L1 limit allows: 2 PiB.
    image.set64(24, (4 << 20) << 29);
    image.set32(36, 4 << 20);
    image.set64(40, 8 * CLUSTER as u64);
    let path = written(dir.path(), &image);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 * CLUSTER as u64 + (32 << 20)).unwrap();
    let all = use_all(&path, &OpenOptions::default()).unwrap();
    assert!(all.iter().all(|&b| b == 0));
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(image.map().count(), 1);
}

#[test]
fn a_raw_disk_that_looks_like_qcow2() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &HandMade::new());
    let raw = OpenOptions {
        format: Some(Format::Raw),
        ..OpenOptions::default()
    };
    let image = Image::open(&path, &raw).unwrap();
    let mut head = [0; 4];
    image.device().read_at(0, &mut head).unwrap();
    assert_eq!(&head, b"QFI\xfb");
    assert!(!image.description().probed);
    assert_eq!(image.device().size_bytes(), 7 * CLUSTER as u64);
}

#[test]
fn foreign_formats_and_what_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, b"Bochs Virtual HD Image").unwrap();
    let e = Image::open(&path, &OpenOptions::default()).unwrap_err();
    is(&e, ErrorKind::Unsupported, "Bochs");
    is(&e, ErrorKind::Unsupported, "qemu-img convert -O qcow2");
    let e = Image::open(dir.path(), &OpenOptions::default()).unwrap_err();
    is(&e, ErrorKind::Unsupported, "directory");
    let e = Image::open(&dir.path().join("no"), &OpenOptions::default()).unwrap_err();
    is(&e, ErrorKind::NotFound, "no");
    std::fs::write(&path, b"").unwrap();
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!((image.device().size_bytes(), image.map().count()), (0, 0));
    let e = image.device().read_at(0, &mut [0]).unwrap_err();
    is(&e, ErrorKind::OutOfBounds, "");
}
