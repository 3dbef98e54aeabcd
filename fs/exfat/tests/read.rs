//! Tests that read the fixtures and compare with exfat-fuse.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::{BlockWrite, File, Memory};
use diskfs_exfat::Exfat;
use diskfs_fixtures::{Tree, expected_tree, image};
use diskfs_vfs::{ErrorKind, FileExtentKind, FsRead};

use common::EXFAT_IMAGES;

fn open(name: &str) -> Exfat {
    let image = image(name);
    Exfat::open(Arc::new(File::open(image.path()).unwrap())).unwrap()
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(image(name).path()).unwrap()
}

#[test]
fn shows_what_exfat_fuse_shows() {
    for name in EXFAT_IMAGES {
        let found = Tree::of_filesystem(&open(name)).unwrap();
        let differences = expected_tree(name).differences(&found);
        assert!(
            differences.is_empty(),
            "{name}:\n{}",
            differences.join("\n")
        );
        assert!(found.entries.len() > 80);
    }
}

#[test]
fn names_are_found_in_any_case() {
    let fs = open("exfat.img");
    let names = fs.lookup(fs.root(), b"NAMES").unwrap();
    assert_eq!(fs.lookup(fs.root(), b"Names...").unwrap(), names);
    assert_eq!(fs.lookup(names, b"..").unwrap(), fs.root());
    let umlaut = "UMLAUT-\u{c4}\u{d6}\u{dc}".as_bytes();
    assert!(fs.lookup(names, umlaut).is_ok());
    for name in [&b"\xff"[..], b"none", b"..."] {
        let e = fs.lookup(names, name).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn identifies_label_serial_and_sizes() {
    let fs = open("exfat.img");
    let identity = fs.identity();
    assert_eq!(identity.label, "D\u{ed}skfs-\u{1f4be}".as_bytes());
    assert_eq!(identity.uuid.as_deref(), Some("D15C-F501"));
    assert_eq!((identity.features, identity.notes), (vec![], vec![]));
    // The values are from dump.exfat.
    let statistics = fs.statistics().unwrap();
    assert_eq!((statistics.block_size, statistics.blocks), (4096, 1536));
    assert!(statistics.blocks_free > 1000 && statistics.blocks_free < 1500);
    let fs = open("exfat-cluster-512.img");
    let dir = fs.lookup(fs.root(), b"pieces-one").unwrap();
    let fragment = fs.lookup(dir, b"FRAGMENT").unwrap();
    let extents = fs.extents_of(fragment, 0).unwrap().count();
    assert!(extents > 20, "{extents} extents");
}

#[test]
fn a_listing_goes_on_at_any_cookie() {
    let fs = open("exfat-cluster-512.img");
    let dir = fs.lookup(fs.root(), b"many").unwrap();
    let list = |cookie| -> Vec<_> {
        let entries = fs.read_dir(dir, cookie).unwrap();
        entries.map(Result::unwrap).collect()
    };
    let all = list(0);
    assert_eq!(all.len(), 42);
    for (seen, entry) in (1..).zip(&all) {
        assert_eq!(list(entry.cookie), all[seen..]);
    }
}

#[test]
fn what_was_never_written_is_zeroes() {
    let fs = open("exfat.img");
    let dir = fs.lookup(fs.root(), b"Sizes").unwrap();
    let file = fs.lookup(dir, b"size-4097").unwrap();
    // The valid data length of the set, and the checksum, which changes with these two bytes.
    let mut image = bytes("exfat.img");
    let at = usize::try_from(file.0 * 32).unwrap();
    assert_eq!(image[at + 32 + 8..at + 32 + 10], 4097_u16.to_le_bytes());
    image[at + 32 + 8..at + 32 + 10].copy_from_slice(&100_u16.to_le_bytes());
    let count = usize::from(image[at + 1]) + 1;
    let sum = image[at..at + count * 32]
        .iter()
        .enumerate()
        .filter(|(nth, _)| ![2, 3].contains(nth))
        .fold(0_u16, |sum, (_, byte)| {
            sum.rotate_right(1).wrapping_add(u16::from(*byte))
        });
    image[at + 2..at + 4].copy_from_slice(&sum.to_le_bytes());
    let fs = Exfat::open(Arc::new(Memory::new(image))).unwrap();
    let mut expected = diskfs_fixtures::pattern("Sizes/size-4097", 4097);
    expected[100..].fill(0);
    assert_eq!(common::read(&fs, file), expected);
    let mut part = [1; 200];
    assert_eq!(fs.read_at(file, 4000, &mut part).unwrap(), 97);
    assert_eq!(part[..98], [vec![0; 97], vec![1]].concat());
    let kinds: Vec<_> = fs
        .extents_of(file, 50)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!((kinds[0].len_bytes, kinds[1].len_bytes), (50, 3997));
    assert_eq!(kinds[1].kind, FileExtentKind::Hole);
}

#[test]
fn the_copy_of_the_boot_region_stands_in() {
    for name in EXFAT_IMAGES {
        let device = Arc::new(Memory::new(bytes(name)));
        device.write_at(400, b"scribble").unwrap();
        let fs = Exfat::open(device.clone()).unwrap();
        assert_eq!(
            fs.identity().notes,
            ["main boot region damaged, using its backup"]
        );
        let found = Tree::of_filesystem(&fs).unwrap();
        assert!(expected_tree(name).differences(&found).is_empty());
        device.write_at(0, &vec![0; 64 << 10]).unwrap();
        let e = Exfat::open(device).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_damaged_upcase_table_is_reported() {
    let image = bytes("exfat.img");
    let table = [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0];
    let at = image
        .windows(12)
        .position(|window| window == table)
        .unwrap();
    let device = Arc::new(Memory::new(image));
    device.write_at(at as u64 + 200, b"x").unwrap();
    let fs = Exfat::open(device).unwrap();
    let notes = fs.identity().notes;
    assert!(
        notes[0].contains("invalid up-case table: checksum is"),
        "{notes:?}"
    );
    assert!(fs.lookup(fs.root(), b"NAMES").is_ok());
}
