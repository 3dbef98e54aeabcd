//! Invalid filesystems: each operation ends soon, without a panic, and names the damage.

mod structures;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diskfs_block::BlockRead;
use diskfs_vfs::{ErrorKind, FileType, Follow, FsRead, InodeNumber, Result, resolve};
use diskfs_xfs::Xfs;
use proptest::prelude::*;

use structures::Image;

/// The fixtures whose structures are changed.
const FIXTURES: [&str; 7] = [
    "xfs-default",
    "xfs-block-1024",
    "xfs-extents",
    "xfs-attributes",
    "xfs-directories",
    "xfs-v4",
    "xfs-v4-attributes",
];
/// The maximum number of files that a walk visits.
const FILES_MAX: usize = 400;
/// The maximum number of entries, extents or attributes of a file that a walk visits.
const ITEMS_MAX: usize = 400;
/// The maximum duration of a walk on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

fn fixture(nth: usize) -> &'static Image {
    static IMAGES: [OnceLock<Image>; FIXTURES.len()] = [const { OnceLock::new() }; FIXTURES.len()];
    IMAGES[nth].get_or_init(|| Image::of(FIXTURES[nth]))
}

fn named(name: &str) -> &'static Image {
    fixture(FIXTURES.iter().position(|other| *other == name).unwrap())
}

/// Makes all calls for all files that have a name, and returns the first error.
fn walk(device: &Arc<dyn BlockRead>) -> Result<()> {
    let start = Instant::now();
    let result = visit(device);
    assert!(start.elapsed() < TIME_MAX, "{:?}", start.elapsed());
    if let Err(e) = &result {
        assert!(!e.to_string().is_empty());
        assert_ne!(e.kind(), ErrorKind::Io, "{e}");
    }
    result
}

fn visit(device: &Arc<dyn BlockRead>) -> Result<()> {
    let fs = Xfs::open(Arc::clone(device))?;
    let mut outcome = fs.statistics().map(|_| ());
    let mut note = |result: Result<()>| {
        if outcome.is_ok() {
            outcome = result;
        }
    };
    let free = fs.free_ranges();
    note(free.and_then(|ranges| ranges.take(ITEMS_MAX).try_for_each(|range| range.map(drop))));
    let mut pending = vec![fs.root()];
    let mut visited = 0;
    while let Some(inode) = pending.pop() {
        visited += 1;
        if visited > FILES_MAX {
            break;
        }
        note(file(&fs, inode, &mut pending));
    }
    for number in [0, 1, 127, 1000, 1 << 20, 1 << 40, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
    outcome
}

fn file(fs: &Xfs, inode: InodeNumber, pending: &mut Vec<InodeNumber>) -> Result<()> {
    let metadata = fs.metadata(inode)?;
    let attributes = fs.list_xattrs(inode).and_then(|names| {
        names
            .iter()
            .take(ITEMS_MAX)
            .try_for_each(|name| fs.xattr(inode, name).map(drop))
    });
    let contents = match metadata.file_type {
        FileType::Symlink => fs.read_link(inode).map(drop),
        FileType::Directory => directory(fs, inode, pending),
        FileType::Regular => contents(fs, inode),
        _ => Ok(()),
    };
    attributes.and(contents)
}

fn contents(fs: &Xfs, inode: InodeNumber) -> Result<()> {
    let mut buf = vec![0; 20_000];
    for offset in [0, 50_000, 1 << 62, u64::MAX] {
        fs.read_at(inode, offset, &mut buf)?;
    }
    let mut extents = fs.extents_of(inode, 0)?.take(ITEMS_MAX);
    extents.try_for_each(|extent| extent.map(drop))
}

fn directory(fs: &Xfs, inode: InodeNumber, pending: &mut Vec<InodeNumber>) -> Result<()> {
    for entry in fs.read_dir(inode, 0)?.take(ITEMS_MAX) {
        let entry = entry?;
        fs.lookup(inode, &entry.name)?;
        if entry.name != b"." && entry.name != b".." {
            pending.push(entry.inode);
        }
    }
    match fs.lookup(inode, b"no such name") {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

#[test]
fn the_fixtures_themselves_are_valid() {
    for nth in 0..FIXTURES.len() {
        let image = fixture(nth);
        walk(&image.cut(image.bytes.len())).unwrap();
    }
}

#[test]
fn a_cut_device_is_corrupt() {
    let image = named("xfs-default");
    for len in [
        0,
        3,
        100,
        511,
        512,
        4096,
        65_536,
        1 << 20,
        image.bytes.len() - 1,
    ] {
        let e = walk(&image.cut(len)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{len}: {e}");
        assert!(e.next_step().is_some(), "{e}");
    }
}

/// Each structure whose checksum does not fit is reported, with its place.
#[test]
fn a_wrong_checksum_is_corrupt() {
    for (name, magic) in [
        ("xfs-default", &b"XFSB"[..]),
        ("xfs-default", b"XAGF"),
        ("xfs-block-1024", b"XDB3"),
        ("xfs-block-1024", b"XSLM"),
        ("xfs-extents", b"BMA3"),
        ("xfs-extents", b"AB3B"),
        ("xfs-attributes", b"XARM"),
        ("xfs-default", b"IN"),
    ] {
        let image = named(name);
        let found: Vec<_> = image
            .with_magic(magic)
            .filter_map(|structure| {
                let last = structure.offset + structure.len - 1;
                let flipped = [image.bytes[last] ^ 1];
                walk(&image.patched(last, &flipped))
                    .err()
                    .map(|e| (structure, e))
            })
            .take(3)
            .collect();
        // Structures that no name leads to are not read.
        assert!(!found.is_empty(), "{name}: {magic:?}");
        for (structure, e) in found {
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
            assert!(e.reason().contains("checksum"), "{e}");
            assert_eq!(e.offset(), Some(structure.offset as u64), "{e}");
        }
    }
}

fn inode_of(image: &Image, path: &str) -> (InodeNumber, structures::Structure) {
    let device = image.cut(image.bytes.len());
    let fs = Xfs::open(device).unwrap();
    let number = resolve(&fs, path, Follow::All).unwrap();
    let bytes = number.0.to_be_bytes();
    let mut found = image.with_magic(b"IN");
    let found = found.find(|inode| image.bytes[inode.offset + 152..inode.offset + 160] == bytes);
    (number, found.unwrap())
}

#[test]
fn a_tree_that_refers_to_itself_ends() {
    let image = named("xfs-extents");
    // Inner nodes are blocks of level 1; their last pointers come after the space for 59 keys.
    let mut inner = image
        .with_magic(b"BMA3")
        .filter(|block| image.bytes[block.offset + 5] == 1);
    let node = inner.next().expect("a tree of two levels");
    let first: [u8; 8] = image.bytes[node.offset + 72 + 59 * 8..][..8]
        .try_into()
        .unwrap();
    let same_child = image.changed(node, |bytes| {
        let count = usize::from(bytes[7]);
        for nth in 0..count {
            bytes[72 + (59 + nth) * 8..][..8].copy_from_slice(&first);
        }
    });
    assert_eq!(walk(&same_child).unwrap_err().kind(), ErrorKind::Corrupt);
    let own = image.changed(node, |bytes| {
        let place = node.offset as u64 / 1024;
        bytes[72 + 59 * 8..][..8].copy_from_slice(&place.to_be_bytes());
    });
    assert_eq!(walk(&own).unwrap_err().kind(), ErrorKind::Corrupt);
    let level = image.changed(node, |bytes| bytes[5] = 7);
    assert_eq!(walk(&level).unwrap_err().kind(), ErrorKind::Corrupt);
    for count in [0, 0xffff_u16] {
        let changed = image.changed(node, |bytes| {
            bytes[6..8].copy_from_slice(&count.to_be_bytes());
        });
        assert_eq!(walk(&changed).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// Changes to one inode, and the error that they must cause.
#[test]
fn impossible_inodes_are_corrupt() {
    let image = named("xfs-extents");
    let (number, inode) = inode_of(image, "fragments-1500");
    let cases: [(usize, &[u8]); 11] = [
        (0, b"XX"),
        (4, &[2]),
        (5, &[9]),
        (5, &[1]),
        (56, &[0xff; 8]),
        (76, &[0xff; 4]),
        (82, &[0xff]),
        (83, &[7]),
        (152, &[0; 8]),
        (160, &[0; 16]),
        // The level of the tree's root.
        (176, &[0, 99]),
    ];
    for (offset, value) in cases {
        let device = image.changed(inode, |bytes| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        });
        let fs = Xfs::open(device).unwrap();
        let read = fs.read_at(number, 0, &mut [0; 100]);
        let e = read.err().unwrap_or_else(|| panic!("{offset}: no error"));
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{offset}: {e}");
        assert_eq!(e.inode(), Some(number));
    }
}

/// An inode that claims 2^48 extents neither takes memory nor time.
#[test]
fn huge_numbers_of_extents_are_corrupt() {
    let image = named("xfs-extents");
    let (number, inode) = inode_of(image, "fragments-1500");
    for blocks in [1_u64 << 48, u64::MAX] {
        let device = image.changed(inode, |bytes| {
            bytes[24..32].copy_from_slice(&(1_u64 << 48).to_be_bytes());
            bytes[64..72].copy_from_slice(&blocks.to_be_bytes());
            bytes[76..82].fill(0);
            bytes[127] |= 0x10;
        });
        let start = Instant::now();
        let fs = Xfs::open(device).unwrap();
        let _ = fs.read_at(number, 0, &mut [0; 100]);
        if let Ok(extents) = fs.extents_of(number, 0) {
            assert!(extents.count() < 10_000);
        }
        assert!(start.elapsed() < TIME_MAX);
    }
}

#[test]
fn directory_entries_that_overlap_are_corrupt() {
    let image = named("xfs-block-1024");
    let block = image.with_magic(b"XDB3").next().unwrap();
    // The length of the first name reaches into the next entry, or out of the block.
    for len in [3_u8, 100, 255] {
        let device = image.changed(block, |bytes| bytes[64 + 8] = len);
        let e = walk(&device).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    }
    // The number of records of the index.
    for count in [0_u32, 1, 500, u32::MAX] {
        let device = image.changed(block, |bytes| {
            let tail = bytes.len() - 8;
            bytes[tail..tail + 4].copy_from_slice(&count.to_be_bytes());
        });
        let _ = walk(&device);
    }
}

/// A number that nobody uses is not found, and one of another structure is no damage.
#[test]
fn unused_numbers_are_not_found() {
    let image = named("xfs-default");
    let fs = Xfs::open(image.cut(image.bytes.len())).unwrap();
    for number in [0, 1, 8, 100, 20_000, 1 << 30, 1 << 60, u64::MAX] {
        let e = fs.metadata(InodeNumber(number)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "{number}: {e}");
    }
}

#[test]
fn marked_filesystems_are_refused_as_by_the_kernel() {
    let image = named("xfs-default");
    let superblock = image.with_magic(b"XFSB").next().unwrap();
    let open = |offset: usize, change: fn(u8) -> u8| {
        let device = image.changed(superblock, |bytes| bytes[offset] = change(bytes[offset]));
        Xfs::open(device).unwrap_err()
    };
    let e = open(219, |byte| byte | 0x10);
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert_eq!(e.next_step(), Some("run `xfs_repair` on a copy"));
    assert_eq!(open(126, |_| 1).kind(), ErrorKind::Corrupt);
    let e = open(218, |byte| byte | 0x01);
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.reason().contains("metadir"), "{e}");
    let e = open(216, |byte| byte | 0x80);
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.reason().contains("unknown incompat bit 31"), "{e}");
}

/// A file on the real-time device is refused by name, and only its contents.
#[test]
fn real_time_files_are_refused_by_name() {
    let image = named("xfs-default");
    let (number, inode) = inode_of(image, "size-4097");
    let device = image.changed(inode, |bytes| bytes[91] |= 1);
    let fs = Xfs::open(device).unwrap();
    let e = fs.read_at(number, 0, &mut [0; 10]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.reason().contains("real-time device"), "{e}");
    assert_eq!(fs.metadata(number).unwrap().size_bytes, 4097);
}

/// Returns the number of cases: `DISKFS_MUTATIONS`, or a few.
fn cases() -> ProptestConfig {
    let set = std::env::var("DISKFS_MUTATIONS").ok();
    ProptestConfig {
        cases: set.map_or(150, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Structures with changed bytes and valid checksums are read or refused.
    #[test]
    fn changed_structures_do_no_harm(
        nth in 0..FIXTURES.len(),
        structure: prop::sample::Index,
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![
                any::<u8>(), Just(0), Just(0xff), Just(1), Just(0x80)
            ]),
            1..6,
        ),
    ) {
        let image = fixture(nth);
        let structure = *structure.get(&image.structures);
        let device = image.changed(structure, |bytes| {
            for (place, value) in &changes {
                // Headers decide more than the rest.
                let len = if value % 3 == 0 { bytes.len() } else { bytes.len().min(200) };
                bytes[place.index(len)] = *value;
            }
        });
        let _ = walk(&device);
    }
}
