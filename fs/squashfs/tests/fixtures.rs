//! The fixtures: the driver shows what the kernel showed when they were made.

use std::sync::Arc;

use diskfs_block::File;
use diskfs_fixtures::{Tree, expected_tree, image};
use diskfs_squashfs::Squashfs;
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber};

fn open(name: &str) -> Squashfs {
    let image = image(name);
    let file = File::open(image.path()).expect("open the image");
    Squashfs::open(Arc::new(file)).expect("open the filesystem")
}

#[test]
fn each_fixture_is_as_the_kernel_showed_it() {
    let fixtures = diskfs_fixtures::all().iter();
    let mut count = 0;
    for fixture in fixtures.filter(|fixture| fixture.name.starts_with("squashfs-")) {
        let found = Tree::of_filesystem(&open(&fixture.name)).expect(&fixture.name);
        let differences = expected_tree(&fixture.name).differences(&found);
        assert_eq!(differences, [""; 0], "{}", fixture.name);
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn the_identity_names_the_compressor() {
    let identity = open("squashfs-xz").identity();
    assert_eq!(identity.kind, "squashfs");
    assert_eq!(identity.features, ["xz", "exports"]);
    assert_eq!(open("squashfs-zstd").identity().features, ["zstd"]);
    assert!(
        open("squashfs-xattrs")
            .identity()
            .features
            .contains(&"xattrs".to_owned())
    );
}

/// Listing goes on at any cookie, also in the middle of a run.
#[test]
fn a_listing_goes_on_where_it_stopped() {
    let fs = open("squashfs-directories");
    let large = fs.lookup(fs.root(), b"large").unwrap();
    let all: Vec<_> = fs.read_dir(large, 0).unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), 3002);
    for (nth, entry) in all.iter().enumerate().step_by(97) {
        let next = fs.read_dir(large, entry.cookie).unwrap().next();
        assert_eq!(next.map(Result::unwrap).as_ref(), all.get(nth + 1));
    }
    let missing = fs.lookup(large, b"a name that is not short 3000");
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn parents_are_found_without_an_export_table() {
    let fs = open("squashfs-zstd");
    let directory = fs.lookup(fs.root(), b"directory").unwrap();
    let inner = fs.lookup(directory, b"inner").unwrap();
    assert_eq!(fs.lookup(inner, b"..").unwrap(), directory);
    assert_eq!(fs.lookup(directory, b"..").unwrap(), fs.root());
    assert_eq!(fs.lookup(fs.root(), b"..").unwrap(), fs.root());
}

#[test]
fn unknown_inode_numbers_are_not_found() {
    for name in ["squashfs-gzip", "squashfs-zstd"] {
        let fs = open(name);
        for number in [0, 1 << 40, u64::MAX] {
            let error = fs.metadata(InodeNumber(number)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{name} {number}");
        }
    }
}

/// Reads of several blocks, of parts of them, and past the end give the same bytes.
#[test]
fn reads_of_any_size_give_the_same_bytes() {
    for name in ["squashfs-gzip", "squashfs-lz4", "squashfs-plain"] {
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

/// Any number of threads can read at once.
#[test]
fn threads_read_the_same() {
    for name in ["squashfs-gzip", "squashfs-lz4"] {
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
