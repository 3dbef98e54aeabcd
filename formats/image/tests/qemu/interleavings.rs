//! Several threads, of which one waits long in a request to the file: at each request in turn.
//!
//! These interleavings have corrupted images of other implementations: a discard during the write
//! that allocates the cluster, a freed cluster that is used again under a write or read of its old
//! place, and a flush while the refcount table moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, Extent, Memory, Result};
use diskfs_image::WritableImage;

use crate::encryption::options;
use crate::model::{content, is_clean};
use crate::tools::{converted, create, have_qemu, number};

const CLUSTER: u64 = 512;
/// The size of the guest's disk: its clusters fill the refcount table of one cluster, which has 64
/// entries for blocks of 64 clusters each.
const CLUSTERS: u64 = 4096;
/// The number of clusters at the end of the disk that are not allocated at first. The refcount
/// table moves while they are.
const FRESH: u64 = 130;
/// The number of clusters that each thread uses.
const OWN: u64 = 16;
/// The time of the request that waits: the other threads are done before.
const WAIT: Duration = Duration::from_millis(20);

/// A file of which one request waits before it is done. Requests are counted from 0.
#[derive(Debug)]
struct SlowOnce {
    inner: Memory,
    nth: u64,
    requests: AtomicU64,
}

impl SlowOnce {
    fn count(&self) {
        if self.requests.fetch_add(1, Ordering::Relaxed) == self.nth {
            thread::sleep(WAIT);
        }
    }
}

impl BlockRead for SlowOnce {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.count();
        self.inner.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.inner.extent_at(offset)
    }
}

impl BlockWrite for SlowOnce {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.count();
        self.inner.write_at(offset, buf)
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.count();
        self.inner.write_zeroes(offset, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.count();
        self.inner.discard(offset, len_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.count();
        self.inner.flush()
    }

    fn set_size(&self, size_bytes: u64) -> Result<()> {
        self.inner.set_size(size_bytes)
    }
}

/// Returns the contents of a cluster after a step.
fn cluster(number: u64, step: u64) -> Vec<u8> {
    content(CLUSTER, number * 8 + step)
}

#[track_caller]
fn assert_cluster(disk: &dyn BlockWrite, number: u64, allowed: &[&[u8]]) {
    let mut bytes = vec![0x5a; 512];
    disk.read_at(number * CLUSTER, &mut bytes).unwrap();
    assert!(allowed.contains(&&*bytes), "cluster {number}");
}

/// Allocates clusters.
fn allocate(disk: &dyn BlockWrite, first: u64) {
    for number in (first..first + OWN * 3).step_by(3) {
        let bytes = cluster(number, 1);
        disk.write_at(number * CLUSTER, &bytes).unwrap();
        assert_cluster(disk, number, &[&bytes]);
    }
}

/// Discards clusters, and writes to every second one again.
fn discard(disk: &dyn BlockWrite, first: u64) {
    for number in (first..first + OWN * 3).step_by(3) {
        disk.discard(number * CLUSTER, CLUSTER).unwrap();
        assert_cluster(disk, number, &[&[0; 512]]);
        if number.is_multiple_of(2) {
            disk.write_at(number * CLUSTER, &cluster(number, 1))
                .unwrap();
        }
    }
}

/// Overwrites clusters in their place.
fn overwrite(disk: &dyn BlockWrite, first: u64) {
    for number in (first..first + OWN * 3).step_by(3) {
        assert_cluster(disk, number, &[&cluster(number, 0)]);
        disk.write_at(number * CLUSTER, &cluster(number, 1))
            .unwrap();
        assert_cluster(disk, number, &[&cluster(number, 1)]);
    }
}

/// Writes to one cluster, or discards it, while others do the same.
fn contend(disk: &dyn BlockWrite, number: u64, thread: u64) {
    let mine = cluster(number, thread);
    let others = [2, 3].map(|thread| cluster(number, thread));
    for round in 0..OWN {
        if (round + thread).is_multiple_of(2) {
            disk.write_at(number * CLUSTER, &mine).unwrap();
        } else {
            disk.discard(number * CLUSTER, CLUSTER).unwrap();
        }
        assert_cluster(disk, number, &[&others[0], &others[1], &[0; 512]]);
    }
}

/// Returns an image of which all but the last clusters are allocated.
fn nearly_full() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let how = "cluster_size=512,refcount_bits=64";
    let size = (CLUSTERS * CLUSTER).to_string();
    create(dir.path(), how, &size);
    let path = dir.path().join("disk.qcow2");
    let image = WritableImage::open(&path, &options()).unwrap();
    let disk = image.device();
    for number in 0..CLUSTERS - FRESH {
        disk.write_at(number * CLUSTER, &cluster(number, 0))
            .unwrap();
    }
    drop(disk);
    image.close().unwrap();
    std::fs::read(path).unwrap()
}

/// Runs the threads with one request that waits. Returns the number of requests until then, and the
/// image.
fn run_threads(start: &[u8], nth: u64) -> (u64, Vec<u8>) {
    let file = Arc::new(SlowOnce {
        inner: Memory::new(start),
        nth,
        requests: AtomicU64::new(0),
    });
    let image = WritableImage::from_device(file.clone(), &options()).unwrap();
    let disk = image.device();
    let fresh = CLUSTERS - FRESH;
    thread::scope(|scope| {
        let disk = disk.as_ref();
        scope.spawn(move || allocate(disk, fresh));
        scope.spawn(move || allocate(disk, fresh + 1));
        scope.spawn(move || discard(disk, 1000));
        scope.spawn(move || overwrite(disk, 1001));
        scope.spawn(move || contend(disk, CLUSTERS - 1, 2));
        scope.spawn(move || contend(disk, CLUSTERS - 1, 3));
        scope.spawn(move || (0..4).for_each(|_| disk.flush().unwrap()));
    });
    drop(disk);
    image.close().unwrap();
    (file.requests.load(Ordering::Relaxed), file.inner.to_vec())
}

/// Checks the final contents by qemu-img.
fn check(image: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("disk.qcow2"), image).unwrap();
    is_clean(dir.path(), "disk.qcow2");
    let bytes = converted(dir.path(), "disk.qcow2", &[]).unwrap();
    let (found, _) = bytes.as_chunks::<512>();
    let fresh = CLUSTERS - FRESH;
    for (number, found) in (0..CLUSTERS - 1).zip(found) {
        let of = |first: u64| {
            (first..first + OWN * 3).contains(&number) && (number - first).is_multiple_of(3)
        };
        let expected = if of(1000) && !number.is_multiple_of(2) {
            vec![0; 512]
        } else if of(fresh) || of(fresh + 1) || of(1000) || of(1001) {
            cluster(number, 1)
        } else if number < fresh {
            cluster(number, 0)
        } else {
            vec![0; 512]
        };
        assert_eq!(found.as_slice(), expected, "cluster {number}");
    }
}

#[test]
fn each_request_waits_once() {
    if !have_qemu() {
        return;
    }
    let start = nearly_full();
    let step = if number("DISKFS_QEMU_ROUNDS", 0) > 0 {
        1
    } else {
        7
    };
    for nth in (0..).step_by(step) {
        let (requests, image) = run_threads(&start, nth);
        let table = |image: &[u8]| image[48..56].to_vec();
        assert_ne!(table(&image), table(&start), "the refcount table moves");
        check(&image);
        if nth >= requests {
            return;
        }
    }
}
