//! Tests with invalid images: every call returns soon, without a panic.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diskfs_block::Memory;
use diskfs_squashfs::Squashfs;
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber, walk};
use proptest::prelude::*;

/// The time limit for one walk, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

fn open(bytes: Vec<u8>) -> diskfs_vfs::Result<Squashfs> {
    Squashfs::open(Arc::new(Memory::new(bytes)))
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
        for number in [0, 1, 2, 96, 1 << 16, 3 << 16, u64::MAX] {
            let _ = fs.metadata(InodeNumber(number));
        }
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(diskfs_fixtures::image(name).path()).unwrap()
}

/// Returns the error for an image with other bytes at `offset`.
fn changed(offset: usize, bytes: &[u8]) -> diskfs_vfs::Error {
    let mut image = fixture("squashfs-gzip");
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    open(image).unwrap_err()
}

#[test]
fn other_versions_and_compressors_are_refused_by_name() {
    let error = changed(28, &[3, 0, 1, 0]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("squashfs 3.1"), "{error}");
    let error = changed(20, &[9]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("compressor 9"), "{error}");
    let error = changed(0, b"sqsh");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("big-endian"), "{error}");
}

#[test]
fn invalid_superblocks_are_corrupt() {
    // The magic; the block size; bytes_used; the inode table after the directories; no IDs.
    let changes: [(usize, &[u8]); 5] = [
        (0, b"x"),
        (12, &[0, 0, 3, 0]),
        (40, &[0xff; 8]),
        (64, &[0xff; 7]),
        (26, &[0, 0]),
    ];
    for (offset, bytes) in changes {
        let error = changed(offset, bytes);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{offset}: {error}");
    }
    for len in [0, 95, 96, 4095] {
        let mut image = fixture("squashfs-gzip");
        image.truncate(len);
        assert_eq!(open(image).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// A damaged data block is named, with its byte on the device.
#[test]
fn a_damaged_block_is_corrupt() {
    let mut image = fixture("squashfs-zstd");
    // The first data block.
    image[96..110].fill(0xee);
    let fs = open(image).unwrap();
    let file = fs.lookup(fs.root(), b"blocks-and-tail").unwrap();
    let error = fs.read_at(file, 0, &mut [0; 100]).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::Corrupt, Some(96))
    );
    assert_eq!(error.inode(), Some(file));
}

/// The fixtures, each with the offsets of its bytes that are not contents.
fn images() -> &'static [(Vec<u8>, Vec<usize>)] {
    static IMAGES: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let fixtures = diskfs_fixtures::all().iter();
        let all = fixtures.filter(|fixture| fixture.name.starts_with("squashfs-"));
        let load = |fixture: &diskfs_fixtures::Fixture| {
            let bytes = self::fixture(&fixture.name);
            let inode_table = u64::from_le_bytes(bytes[64..72].try_into().unwrap());
            let tables = usize::try_from(inode_table).unwrap()..bytes.len() - 4;
            let places = (0..96).chain(tables).collect();
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
        let mut bytes = image[..len.min(image.len())].to_vec();
        // The size in the superblock is that of the device, so that more than it is read.
        if let Some(used) = bytes.get_mut(40..48) {
            used.copy_from_slice(&(len.min(image.len()) as u64).to_le_bytes());
        }
        ask(bytes);
    }
}
