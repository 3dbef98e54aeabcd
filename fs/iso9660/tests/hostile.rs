//! Tests with invalid volumes: every call returns soon, without a panic.

mod disk;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use disk::{Record, disk, entry};
use diskfs_block::Memory;
use diskfs_iso9660::Iso9660;
use diskfs_vfs::{ErrorKind, FileType, FsRead, InodeNumber, walk};
use proptest::prelude::*;

/// The time limit for one walk, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

fn open(bytes: Vec<u8>) -> diskfs_vfs::Result<Iso9660> {
    Iso9660::open(Arc::new(Memory::new(bytes)))
}

/// Makes all the calls that a user could make.
fn ask(bytes: Vec<u8>) {
    let start = Instant::now();
    if let Ok(fs) = open(bytes) {
        let _ = (format!("{:?}", fs.identity()), fs.statistics());
        let mut buf = vec![0; 64 << 10];
        for found in walk(&fs, fs.root()).take(2000).flatten() {
            for offset in [0, 100, found.metadata.size_bytes / 2, u64::MAX - 5] {
                let _ = fs.read_at(found.inode, offset, &mut buf);
                let _ = fs
                    .read_dir(found.inode, offset)
                    .map(|all| all.take(10).count());
                let _ = fs.extents_of(found.inode, offset).map(Iterator::count);
            }
            let _ = fs.read_link(found.inode);
            let _ = fs.lookup(found.inode, b"..");
        }
        for number in [0, 1, 32768, 32924, 2 << 20, u64::MAX] {
            let _ = fs.metadata(InodeNumber(number));
        }
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
}

fn first_error(bytes: Vec<u8>) -> diskfs_vfs::Error {
    let fs = open(bytes).unwrap();
    walk(&fs, fs.root())
        .find_map(Result::err)
        .expect("an error")
}

#[test]
fn a_file_of_several_extents_is_one() {
    let mut first = Record::file(b"BIG.BIN;1", 25, 2048);
    first.flags = 0x80;
    let second = Record::file(b"BIG.BIN;1", 30, 100);
    let fs = open(disk(&[first, second, Record::file(b"Z.;1", 26, 1)])).unwrap();
    let names: Vec<_> = fs
        .read_dir(fs.root(), 0)
        .unwrap()
        .map(|entry| entry.unwrap().name)
        .collect();
    assert_eq!(names, [&b"."[..], b"..", b"big.bin", b"z"]);
    let big = fs.lookup(fs.root(), b"big.bin").unwrap();
    assert_eq!(fs.metadata(big).unwrap().size_bytes, 2148);
    let mut buf = [0; 4096];
    assert_eq!(fs.read_at(big, 2000, &mut buf).unwrap(), 148);
    assert_eq!((buf[47], buf[48]), (25, 30), "each block holds its number");
    let extents = fs
        .extents_of(big, 10)
        .unwrap()
        .map(|extent| extent.unwrap().len_bytes);
    assert_eq!(extents.collect::<Vec<_>>(), [2038, 100]);
}

#[test]
fn an_extended_attribute_record_is_passed_over() {
    let mut file = Record::file(b"A.;1", 25, 10);
    file.extended_attribute_blocks = 2;
    let fs = open(disk(&[file])).unwrap();
    let mut buf = [0; 4];
    let inode = fs.lookup(fs.root(), b"a").unwrap();
    fs.read_at(inode, 0, &mut buf).unwrap();
    assert_eq!(buf, [27; 4]);
}

#[test]
fn interleaved_files_are_refused() {
    let mut file = Record::file(b"A.;1", 25, 10);
    file.interleave_gap = 1;
    let fs = open(disk(&[file])).unwrap();
    let inode = fs.lookup(fs.root(), b"a").unwrap();
    assert!(fs.metadata(inode).is_ok());
    let error = fs.read_at(inode, 0, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("interleaved"), "{error}");
}

#[test]
fn what_lies_outside_is_corrupt() {
    let fs = open(disk(&[Record::file(b"A.;1", 25, 1 << 30)])).unwrap();
    let inode = fs.lookup(fs.root(), b"a").unwrap();
    let error = fs.read_at(inode, 0, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let error = first_error(disk(&[Record::directory(b"D", u32::MAX, 2048)]));
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let mut goes_on = Record::file(b"A.;1", 25, 10);
    goes_on.flags = 0x80;
    assert_eq!(first_error(disk(&[goes_on])).kind(), ErrorKind::Corrupt);
}

#[test]
fn a_directory_in_itself_is_entered_once() {
    let error = first_error(disk(&[Record::directory(b"D", disk::ROOT, 2048)]));
    assert!(error.to_string().contains("contains itself"), "{error}");
}

#[test]
fn rock_ridge_may_loop() {
    // A `CL` loop: a file that is the directory it is in.
    let link = entry("CL", &disk::both(disk::ROOT));
    let looped = Record::file(b"D", 0, 0).with(&[entry("NM", b"\0loop"), link].concat());
    let error = first_error(disk::rock_ridge(&[looped]));
    assert!(error.to_string().contains("contains itself"), "{error}");
    // A `CE` loop: an area that continues with itself.
    let area = [disk::both(28), disk::both(0), disk::both(28)].concat();
    let mut bytes = disk::rock_ridge(&[Record::file(b"F", 25, 1).with(&entry("CE", &area))]);
    bytes[28 * 2048..28 * 2048 + 28].copy_from_slice(&entry("CE", &area));
    let error = first_error(bytes);
    assert!(error.to_string().contains("loop"), "{error}");
    // A `PL` entry that leads to a file.
    let file = Record::file(b"F", 25, 1).with(&entry("NM", b"\0f"));
    ask(disk::rock_ridge(&[file]));
}

#[test]
fn names_that_are_none_are_corrupt() {
    for name in [&b"\0a/b"[..], b"\0", b"\0.", b"\0.."] {
        let record = Record::file(b"F", 25, 1).with(&entry("NM", name));
        let error = first_error(disk::rock_ridge(&[record]));
        assert!(error.to_string().contains("name"), "{error}");
    }
}

#[test]
fn file_types_are_those_of_px() {
    let px = |mode: u32| {
        entry(
            "PX",
            &[
                disk::both(mode),
                disk::both(1),
                disk::both(7),
                disk::both(8),
            ]
            .concat(),
        )
    };
    let named =
        |name: &[u8], mode| Record::file(b"F", 25, 0).with(&[entry("NM", name), px(mode)].concat());
    let fs = open(disk::rock_ridge(&[
        named(b"\0p", 0o010_600),
        named(b"\0l", 0o120_777),
    ]))
    .unwrap();
    let fifo = fs.metadata(fs.lookup(fs.root(), b"p").unwrap()).unwrap();
    assert_eq!(
        (fifo.file_type, fifo.permissions, fifo.uid, fifo.gid),
        (FileType::Fifo, 0o600, 7, 8)
    );
    let error = first_error(disk::rock_ridge(&[named(b"\0d", 0o040_755)]));
    assert!(error.to_string().contains("disagree"), "{error}");
}

#[test]
fn no_descriptor_is_no_filesystem() {
    for len in [0, 1, 32768, 32769, 34816] {
        assert!(open(vec![0; len]).is_err());
    }
    let mut bytes = disk(&[]);
    bytes[16 * 2048 + 128] = 1;
    assert!(open(bytes).is_err(), "blocks of a byte");
}

/// The fixtures, each with the offsets of its metadata bytes that are not zero.
fn images() -> &'static [(Vec<u8>, Vec<usize>)] {
    static IMAGES: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let fixtures = diskfs_fixtures::all().iter();
        let isos = fixtures.filter(|fixture| fixture.name.starts_with("iso9660-"));
        let load = |fixture: &diskfs_fixtures::Fixture| {
            let bytes = std::fs::read(diskfs_fixtures::image(&fixture.name).path()).unwrap();
            let used = bytes
                .iter()
                .enumerate()
                .skip(32768)
                .filter(|(_, byte)| **byte != 0);
            // Directories come before file contents.
            let places = used
                .map(|(at, _)| at)
                .filter(|at| *at < 160 << 10)
                .collect();
            (bytes, places)
        };
        isos.map(load).collect()
    })
}

/// Returns the number of damaged filesystems to try; `DISKFS_MUTATIONS` overrides it.
fn cases() -> u32 {
    let set = std::env::var("DISKFS_MUTATIONS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 50, ..ProptestConfig::default() })]
    #[test]
    fn changed_bytes_do_no_harm(
        kind in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4usize), 1..40),
    ) {
        let (image, places) = kind.get(images());
        let mut bytes = image.clone();
        for (place, value, past) in changes {
            bytes[places[place.index(places.len())] + past] = value;
        }
        ask(bytes);
    }

    #[test]
    fn a_cut_device_does_no_harm(kind in any::<prop::sample::Index>(), len in 32768..400usize << 10) {
        let (image, _) = kind.get(images());
        ask(image[..len.min(image.len())].to_vec());
    }
}
