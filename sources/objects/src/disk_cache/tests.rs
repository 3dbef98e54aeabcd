use std::fs;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use diskfs_block::len_of;

use super::*;
use crate::object::{Fetching, Object};
use crate::runtime;

/// An object of which it is recorded what was fetched.
#[derive(Debug)]
struct Recorded {
    contents: Vec<u8>,
    fetched: Mutex<Vec<Range<u64>>>,
}

impl Object for Recorded {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        self.fetched.lock().unwrap().push(range.clone());
        let bytes = &self.contents[index(range.start)..index(range.end)];
        let bytes = Bytes::copy_from_slice(bytes);
        Box::pin(async move { Ok(bytes) })
    }
}

const BLOCK: usize = 64 << 10;

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// An object of five and a half blocks.
fn object() -> Arc<Recorded> {
    let byte = |at: usize| u8::try_from(at / 7 % 251).unwrap();
    let contents = (0..BLOCK * 11 / 2).map(byte).collect();
    Arc::new(Recorded {
        contents,
        fetched: Mutex::default(),
    })
}

fn cached(object: &Arc<Recorded>, directory: &Path, version: &str) -> Arc<CachedObject> {
    let cache = DiskCache::open(directory, 1 << 30).unwrap();
    let size_bytes = len_of(&object.contents);
    let stored = StoredBlocks::of(&cache, &["https://a.org/d", version]);
    Arc::new(CachedObject::new(object.clone(), size_bytes, stored))
}

/// Fetches blocks, checks them, and returns which of them were asked for.
fn fetch(object: &Arc<Recorded>, cached: &Arc<CachedObject>, blocks: Range<usize>) -> Vec<u64> {
    let end = (blocks.end * BLOCK).min(object.contents.len());
    let range = blocks.start * BLOCK..end;
    let fetching = Arc::clone(cached)
        .fetch(len_of(&object.contents[..range.start])..len_of(&object.contents[..range.end]));
    let bytes = runtime::wait(async { Ok(fetching.await.expect("it is there")) }).unwrap();
    assert!(bytes[..] == object.contents[range]);
    let fetched = std::mem::take(&mut *object.fetched.lock().unwrap());
    let blocks = |range: Range<u64>| range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
    fetched.into_iter().flat_map(blocks).collect()
}

#[test]
fn what_is_stored_is_not_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let object = object();
    let first = cached(&object, dir.path(), "1");
    assert_eq!(fetch(&object, &first, 1..3), [1, 2]);
    // Another process, so to speak.
    let second = cached(&object, dir.path(), "1");
    assert_eq!(fetch(&object, &second, 1..3), [0; 0]);
    assert_eq!(fetch(&object, &second, 0..2), [0]);
    assert_eq!(fetch(&object, &second, 2..6), [3, 4, 5]);
    assert_eq!(fetch(&object, &second, 0..6), [0; 0]);
    assert_eq!(fetch(&object, &cached(&object, dir.path(), "2"), 5..6), [5]);
}

#[test]
fn damaged_blocks_are_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let object = object();
    let cached = cached(&object, dir.path(), "1");
    assert_eq!(fetch(&object, &cached, 0..6), [0, 1, 2, 3, 4, 5]);
    let at = |block| cached.stored.path(block);
    let damage = |block, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(at(block)).unwrap();
        change(&mut bytes);
        fs::write(at(block), bytes).unwrap();
    };
    damage(1, &|bytes| bytes[5000] ^= 1);
    assert_eq!(fetch(&object, &cached, 1..2), [1]);
    damage(2, &|bytes| bytes.truncate(100));
    assert_eq!(fetch(&object, &cached, 2..3), [2]);
    damage(3, &|bytes| bytes.clear());
    assert_eq!(fetch(&object, &cached, 3..4), [3]);
    // A block under the name of another one.
    fs::copy(at(0), at(4)).unwrap();
    assert_eq!(fetch(&object, &cached, 4..5), [4]);
    assert_eq!(fetch(&object, &cached, 0..6), [0; 0]);
}

#[test]
fn a_cache_that_cannot_be_written_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let object = object();
    let cached = cached(&object, dir.path(), "1");
    // A file in the place of the object's directory.
    fs::write(cached.stored.path(0).parent().unwrap(), "").unwrap();
    assert_eq!(fetch(&object, &cached, 0..2), [0, 1]);
    assert_eq!(fetch(&object, &cached, 0..2), [0, 1]);
}

#[test]
fn the_blocks_that_were_used_last_stay() {
    let dir = tempfile::tempdir().unwrap();
    let cache = DiskCache::open(dir.path(), 8 * BLOCK_BYTES).unwrap();
    let stored = StoredBlocks::of(&cache, &["x"]);
    let other = StoredBlocks::of(&cache, &["y"]);
    let block = vec![7; BLOCK];
    other.store(0, &block).unwrap();
    let age = |stored: &StoredBlocks, block, seconds| {
        let file = fs::File::open(stored.path(block)).unwrap();
        let time = SystemTime::now() - Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    };
    age(&other, 0, 100_000);
    for number in 0..6 {
        stored.store(number, &block).unwrap();
        age(&stored, number, 50_000 + number);
    }
    // It is old, but used.
    assert!(stored.load(5, BLOCK).is_some());
    for number in 6..30 {
        stored.store(number, &block).unwrap();
        trim::trim(&cache).unwrap();
        assert!(stored.load(number, BLOCK).is_some());
    }
    assert!(other.load(0, BLOCK).is_none());
    assert!(!other.directory.exists(), "an object without blocks");
    let left = fs::read_dir(&stored.directory).unwrap().count();
    assert!((5..=8).contains(&left), "{left}");
}

#[test]
fn a_directory_that_others_write_to_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("a/b");
    let cache = DiskCache::open(&shared, 1 << 20).unwrap();
    assert_eq!(
        fs::metadata(cache.directory()).unwrap().mode() & 0o777,
        0o700
    );
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
    let error = DiskCache::open(&shared, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), diskfs_block::ErrorKind::Denied);
}
