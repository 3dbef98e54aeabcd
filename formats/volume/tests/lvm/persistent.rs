//! Metadata of pools and caches that no kernel writes, with correct checksums.

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Result};
use proptest::prelude::*;

use crate::device_mapper::Disk;

/// The size of a metadata block in bytes.
const BLOCK: usize = 4096;

/// The checksum constants of the superblocks of pools and caches, tree nodes and array blocks.
const XORS: [u32; 4] = [160_774, 9_031_977, 121_107, 595_846_735];

fn crc(block: &[u8]) -> u32 {
    !crc32c::crc32c(&block[4..])
}

fn stored(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[..4].try_into().unwrap())
}

/// A disk, and the location on it of the metadata of a pool or cache.
struct Broken {
    disk: Disk,
    start: u64,
    /// Returns the numbers of blocks with correct checksums.
    blocks: Vec<u64>,
}

impl Broken {
    fn new(disk: Disk, start: u64, len: u64) -> Self {
        let mut broken = Self {
            disk,
            start,
            blocks: Vec::new(),
        };
        let sound = |number: &u64| {
            let block = broken.read(*number);
            XORS.contains(&(crc(&block) ^ stored(&block)))
        };
        broken.blocks = (0..len / BLOCK as u64).filter(sound).collect();
        assert!(broken.blocks.len() > 3);
        broken
    }

    fn read(&self, number: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        let at = self.start + number * BLOCK as u64;
        self.disk.bytes.read_at(at, &mut block).unwrap();
        block
    }

    /// Runs an action while a block is changed and its checksum corrected.
    fn with<T>(&self, number: u64, change: impl FnOnce(&mut [u8]), test: impl FnOnce() -> T) -> T {
        let (at, good) = (self.start + number * BLOCK as u64, self.read(number));
        let xor = crc(&good) ^ stored(&good);
        let mut bad = good.clone();
        change(&mut bad);
        let sum = crc(&bad) ^ xor;
        bad[..4].copy_from_slice(&sum.to_le_bytes());
        self.disk.bytes.write_at(at, &bad).unwrap();
        let result = test();
        self.disk.bytes.write_at(at, &good).unwrap();
        result
    }

    /// Opens a volume and reads some of it.
    fn try_read(&self, name: &str) -> Result<()> {
        let opened = self.disk.open(name)?;
        let size = opened.size_bytes();
        let mut buf = vec![0; 100_000];
        let len = buf.len() as u64;
        for offset in [0, size / 3, size / 2, size - len] {
            opened.extent_at(offset)?;
            opened.read_at(offset, &mut buf)?;
        }
        Ok(())
    }

    fn exercise(&self) {
        for name in self.disk.sums.keys() {
            let _ = self.try_read(name);
        }
    }
}

fn put(at: usize, value: u64) -> impl FnOnce(&mut [u8]) {
    move |block| block[at..at + 8].copy_from_slice(&value.to_le_bytes())
}

fn get(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().unwrap())
}

/// Returns the metadata of `pool` in `lvm-thin.raw`, at the location that `lvs` reported.
fn thin() -> Broken {
    let start = (1 << 20) + (1 << 20) + 208 * (128 << 10);
    Broken::new(Disk::new("lvm-thin.raw"), start, 2 << 20)
}

#[test]
fn thin_metadata_that_makes_no_sense_is_refused() {
    let pool = thin();
    let superblock = pool.read(0);
    assert_eq!(get(&superblock, 32), 27_022_010);
    let (mapping, details) = (get(&superblock, 320), get(&superblock, 328));
    let kind = |answer: Result<()>| answer.err().map(|error| error.kind());
    let read = || kind(pool.try_read("thin1"));
    let corrupt = Some(ErrorKind::Corrupt);
    assert_eq!(read(), None);
    for (at, value) in [
        (32, 1),
        (8, 1),
        (320, u64::MAX),
        (320, 3),
        (328, 0),
        (336, 7 << 32 | 128),
    ] {
        assert_eq!(pool.with(0, put(at, value), read), corrupt, "{at}");
    }
    // Unknown features.
    let features = |block: &mut [u8]| block[360] = 1;
    assert_eq!(pool.with(0, features, read), Some(ErrorKind::Unsupported));
    // Missing volumes: trees without entries, and trees with too many.
    for root in [mapping, details] {
        let entries = |count: u32| {
            move |block: &mut [u8]| block[16..20].copy_from_slice(&count.to_le_bytes())
        };
        assert_eq!(pool.with(root, entries(0), read), corrupt);
        assert_eq!(pool.with(root, entries(u32::MAX), read), corrupt);
    }
    // The tree of thin1 with a root that is its own child, and with children past the end.
    let top = pool.read(mapping);
    assert_eq!(get(&top, 32), 1, "the first volume is thin1");
    let max = u32::from_le_bytes(top[20..24].try_into().unwrap()) as usize;
    let root = get(&top, 32 + 8 * max);
    let node = pool.read(root);
    assert_eq!(node[4], 1, "an internal node");
    let max = u32::from_le_bytes(node[20..24].try_into().unwrap()) as usize;
    let child_at = 32 + 8 * max;
    for child in [root, 0, mapping + (1 << 40), u64::MAX] {
        assert_eq!(pool.with(root, put(child_at, child), read), corrupt);
    }
    // Data past the pool's end.
    let leaf = get(&node, child_at);
    let max = u32::from_le_bytes(pool.read(leaf)[20..24].try_into().unwrap()) as usize;
    let outside = put(32 + 8 * max, 1 << 60);
    assert_eq!(pool.with(leaf, outside, read), corrupt);
    // A wrong checksum.
    let at = pool.start + root * BLOCK as u64;
    pool.disk.bytes.write_at(at + 4000, &[77]).unwrap();
    assert_eq!(read(), corrupt);
}

#[test]
fn a_pool_that_needs_a_check_is_only_read() {
    let pool = thin();
    let needs_check = |block: &mut [u8]| block[4] |= 1;
    pool.with(0, needs_check, || {
        pool.try_read("thin1").unwrap();
        let refused = pool.disk.open_writable("thin1").err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("must be checked"), "{refused}");
    });
}

/// Returns the metadata of `back` in `lvm-cache.raw`, at the location that `lvs` reported; it
/// begins its volume.
fn cache() -> Broken {
    let start = (1 << 20) + (17 << 20) + (1 << 20) + 32 * (128 << 10);
    Broken::new(Disk::new("lvm-cache.raw"), start, 2 << 20)
}

#[test]
fn cache_metadata_that_makes_no_sense_is_refused() {
    let cache = cache();
    let superblock = cache.read(0);
    assert_eq!(get(&superblock, 32), 0o6_142_003);
    let kind = |answer: Result<()>| answer.err().map(|error| error.kind());
    let read = || kind(cache.try_read("back"));
    let corrupt = Some(ErrorKind::Corrupt);
    assert_eq!(read(), None);
    // The magic, the roots of mappings and dirty bits, blocks of 7 sectors, more blocks than space.
    for (at, value) in [
        (32, 1),
        (192, 99_999),
        (284, 0),
        (232, 8 << 32 | 7),
        (240, 65),
    ] {
        assert_eq!(cache.with(0, put(at, value), read), corrupt, "{at}");
    }
    let version = |block: &mut [u8]| block[40] = 3;
    assert_eq!(cache.with(0, version, read), Some(ErrorKind::Unsupported));
    // After a crash, all blocks in the cache count as dirty.
    let crashed = |block: &mut [u8]| block[4] &= !1;
    cache.with(0, crashed, || {
        let opened = cache.disk.open("back").unwrap();
        let sum = diskfs_fixtures::sha256_hex(&crate::disk::contents(&opened));
        assert_eq!(sum, cache.disk.sums["back"]);
    });
    // An array that is shorter than the cache.
    let array = get(&cache.read(get(&superblock, 192)), 32 + 8 * 252);
    let entries = |block: &mut [u8]| block[8] = 1;
    assert_eq!(cache.with(array, entries, read), corrupt);
}

#[test]
fn any_cache_metadata_gets_an_answer() {
    let cache = cache();
    proptest!(ProptestConfig::with_cases(200), |(places in changes())| any_change(&cache, &places));
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..512,
        Just(u64::MAX),
        Just(1 << 63),
        Just(1 << 40),
        any::<u64>()
    ]
}

fn any_change(broken: &Broken, places: &[(prop::sample::Index, usize, u64)]) {
    let Some((block, at, value)) = places.first() else {
        return broken.exercise();
    };
    let number = broken.blocks[block.index(broken.blocks.len())];
    // Headers and the first keys, or any bytes after them.
    let at = if at % 3 == 0 { *at } else { at % 64 };
    broken.with(number, put(at, *value), || any_change(broken, &places[1..]));
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, u64)>> {
    prop::collection::vec(
        (any::<prop::sample::Index>(), 4_usize..BLOCK - 8, number()),
        1..4,
    )
}

#[test]
fn any_thin_metadata_gets_an_answer() {
    let pool = thin();
    proptest!(ProptestConfig::with_cases(200), |(places in changes())| any_change(&pool, &places));
}
