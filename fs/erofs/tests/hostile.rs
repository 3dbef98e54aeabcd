//! Tests with invalid images: every call returns soon, without a panic.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diskfs_block::Memory;
use diskfs_erofs::Erofs;
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber, walk};
use proptest::prelude::*;

/// The time limit for one walk, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

fn open(bytes: Vec<u8>) -> diskfs_vfs::Result<Erofs> {
    Erofs::open(Arc::new(Memory::new(bytes)))
}

/// Makes all the calls that a user could make.
fn ask(bytes: Vec<u8>) {
    let start = Instant::now();
    if let Ok(fs) = open(bytes) {
        let _ = (format!("{:?}", fs.identity()), fs.statistics());
        let mut buf = vec![0; 300 << 10];
        for found in walk(&fs, fs.root()).take(100).flatten() {
            for offset in [0, 100, found.metadata.size_bytes / 2, u64::MAX - 5] {
                let _ = fs.read_at(found.inode, offset, &mut buf);
                let _ = fs
                    .read_dir(found.inode, offset)
                    .map(|all| all.take(10).count());
                let _ = fs.extents_of(found.inode, offset).map(Iterator::count);
                fs.will_need(found.inode, offset, u64::MAX);
            }
            let _ = fs.read_link(found.inode);
            let _ = fs.lookup(found.inode, b"..");
            let _ = fs.lookup(found.inode, b"no such name");
            for name in fs.list_xattrs(found.inode).unwrap_or_default() {
                let _ = fs.xattr(found.inode, &name);
            }
        }
        for number in [0, 1, 2, 32, 36, 1 << 16, 1 << 31, 1 << 63, u64::MAX] {
            let _ = fs.metadata(InodeNumber(number));
        }
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(diskfs_fixtures::image(name).path()).unwrap()
}

/// Returns the error for an image with other bytes at `offset`, and without a checksum.
fn changed(offset: usize, bytes: &[u8]) -> diskfs_vfs::Error {
    let mut image = fixture("erofs-plain");
    image[1024 + 8] &= !1;
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    open(image).unwrap_err()
}

#[test]
fn unknown_features_are_refused_with_their_number() {
    let error = changed(1024 + 0x51, &[0x82]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("features 0x8200"), "{error}");
    // Large directory blocks.
    assert_eq!(changed(1024 + 0x5a, &[1]).kind(), ErrorKind::Unsupported);
}

#[test]
fn invalid_superblocks_are_corrupt() {
    // The magic; the block size; the root.
    for (offset, bytes) in [
        (1024, &b"x"[..]),
        (1024 + 14, &[0xff, 0xff]),
        (1024 + 12, &[8]),
        (1024 + 12, &[17]),
    ] {
        let error = changed(offset, bytes);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{offset}: {error}");
    }
    for len in [0, 1024, 1100, 4095] {
        let mut image = fixture("erofs-plain");
        image.truncate(len);
        assert_eq!(open(image).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    let mut image = fixture("erofs-plain");
    image[1024 + 100] ^= 1;
    let error = open(image).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

/// The fixtures, each with the offsets of its bytes that are not contents.
fn images() -> &'static [(Vec<u8>, Vec<usize>)] {
    static IMAGES: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let fixtures = diskfs_fixtures::all().iter();
        let all = fixtures.filter(|fixture| fixture.name.starts_with("erofs-"));
        let load = |fixture: &diskfs_fixtures::Fixture| {
            let bytes = self::fixture(&fixture.name);
            let mut bytes = bytes;
            // Otherwise the checksum would find each change of the superblock.
            bytes[1024 + 8] &= !1;
            let used = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
            // Inodes and indexes are at the start.
            let places = used.map(|(at, _)| at).filter(|at| *at < 16 << 10);
            let places = places.collect();
            (bytes, places)
        };
        all.map(load).collect()
    })
}

/// Returns the number of damaged filesystems to try; `DISKFS_MUTATIONS` overrides it.
fn cases() -> u32 {
    let set = std::env::var("DISKFS_MUTATIONS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 50,
        ..ProptestConfig::default()
    })]
    #[test]
    fn changed_bytes_do_no_harm(
        kind in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0..4usize),
            1..10,
        ),
    ) {
        let (image, places) = kind.get(images());
        let mut bytes = image.clone();
        for (place, value, past) in changes {
            bytes[places[place.index(places.len())] + past] = value;
        }
        ask(bytes);
    }

    #[test]
    fn a_cut_device_does_no_harm(kind in any::<prop::sample::Index>(), len in 0..200usize << 10) {
        let (image, _) = kind.get(images());
        let bytes = image[..len.min(image.len())].to_vec();
        ask(bytes);
    }
}
