//! The fixtures: the driver shows what the kernel showed when they were made.

use std::sync::Arc;

use diskfs_block::{BlockRead, File, Memory};
use diskfs_erofs::Erofs;
use diskfs_fixtures::{Tree, expected_tree, image};
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber};

fn open(name: &str) -> Erofs {
    let image = image(name);
    let file = File::open(image.path()).expect("open the image");
    Erofs::open(Arc::new(file)).expect("open the filesystem")
}

#[test]
fn each_fixture_is_as_the_kernel_showed_it() {
    let fixtures = diskfs_fixtures::all().iter();
    let mut count = 0;
    for fixture in fixtures.filter(|fixture| fixture.name.starts_with("erofs-")) {
        let found = Tree::of_filesystem(&open(&fixture.name)).expect(&fixture.name);
        let differences = expected_tree(&fixture.name).differences(&found);
        assert_eq!(differences, [""; 0], "{}", fixture.name);
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn the_identity_has_label_uuid_and_features() {
    let identity = open("erofs-plain").identity();
    assert_eq!(
        (identity.kind.as_str(), &*identity.label),
        ("erofs", &b"plain"[..])
    );
    let uuid = identity.uuid.as_deref();
    assert_eq!(uuid, Some("d15cf500-0000-4000-8000-0000000000ef"));
    assert!(identity.features.contains(&"sb_csum".to_owned()));
    let features = open("erofs-metabox").identity().features;
    for name in ["48bit", "metabox"] {
        assert!(features.contains(&name.to_owned()), "{features:?}");
    }
}

/// Listing goes on at any cookie, also in the middle of a block.
#[test]
fn a_listing_goes_on_where_it_stopped() {
    for (name, directory) in [("erofs-directories", &b"large"[..]), ("erofs-48bit", b".")] {
        let fs = open(name);
        let large = fs.lookup(fs.root(), directory).unwrap();
        let all: Vec<_> = fs.read_dir(large, 0).unwrap().map(Result::unwrap).collect();
        for (nth, entry) in all.iter().enumerate().step_by(7) {
            let next = fs.read_dir(large, entry.cookie).unwrap().next();
            assert_eq!(next.map(Result::unwrap).as_ref(), all.get(nth + 1));
        }
        let missing = fs.lookup(large, b"a name that is not short 3000");
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn unknown_inode_numbers_are_not_found() {
    for name in ["erofs-plain", "erofs-metabox"] {
        let fs = open(name);
        for number in [1 << 40, u64::MAX / 2, u64::MAX] {
            let error = fs.metadata(InodeNumber(number)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{name} {number}");
        }
    }
}

/// Reads of several extents, of parts of them, and past the end give the same bytes.
#[test]
fn reads_of_any_size_give_the_same_bytes() {
    for name in [
        "erofs-plain",
        "erofs-lz4",
        "erofs-zstd",
        "erofs-chunks",
        "erofs-48bit",
    ] {
        let fs = open(name);
        let inode = fs.lookup(fs.root(), b"blocks-and-tail").unwrap();
        let mut whole = vec![0; 400_000];
        assert_eq!(fs.read_at(inode, 0, &mut whole).unwrap(), 300_000);
        for (offset, len) in [(0, 1), (4095, 2), (100_000, 200_000), (131_072, 131_072)] {
            let mut part = vec![0; len];
            let read = fs.read_at(inode, offset, &mut part).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert!(
                part[..read] == whole[start..start + read],
                "{name} {offset}"
            );
            assert_eq!(read, len.min(300_000 - start));
        }
        let directory = fs.read_at(fs.root(), 0, &mut whole).unwrap_err();
        assert_eq!(directory.kind(), ErrorKind::IsADirectory);
    }
}

/// A filesystem on two devices, of which the second has the contents: the image of the first is
/// that of chunks, with a device table.
#[test]
fn other_devices_must_be_given() {
    let mut bytes = std::fs::read(image("erofs-chunks").path()).unwrap();
    // No checksum; the feature of a device table; one device; its slot at byte 1152.
    bytes[1024 + 8] &= !1;
    bytes[1024 + 0x50] |= 8;
    bytes[1024 + 0x56] = 1;
    bytes[1024 + 0x58] = 9;
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
    let error = Erofs::open(Arc::clone(&device)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("1 extra devices"), "{error}");
    let fs = Erofs::open_with_devices(Arc::clone(&device), vec![device]).unwrap();
    assert!(fs.lookup(fs.root(), b"fragment").is_ok());
}

/// Any number of threads can read at once.
#[test]
fn threads_read_the_same() {
    for name in ["erofs-lz4", "erofs-deflate", "erofs-metabox"] {
        let (fs, expected) = (open(name), expected_tree(name));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let found = Tree::of_filesystem(&fs).expect(name);
                    assert_eq!(expected.differences(&found), [""; 0], "{name}");
                });
            }
        });
    }
}
