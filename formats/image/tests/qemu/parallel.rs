//! Several threads that write to one image at once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_block::BlockWrite;

use crate::case::{Backing, Case, DataFile};
use crate::model::{Model, content, is_clean, open};
use crate::tools::{Random, converted, have_qemu, number, run};

const THREADS: u64 = 4;
const SECTOR: u64 = 512;

/// Writes and zeroes sectors of one thread, which lie between those of the others, so that all
/// threads use every cluster. Returns the final contents.
fn sectors(disk: &dyn BlockWrite, thread: u64, end: u64, seed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut r = Random::new(seed * THREADS + thread);
    let mut mine = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let at = (r.below(end / SECTOR / THREADS) * THREADS + thread) * SECTOR;
        if r.one_in(5) {
            disk.write_zeroes(at, SECTOR).unwrap();
            mine.insert(at, vec![0; 512]);
        } else {
            let bytes = content(SECTOR, r.next());
            disk.write_at(at, &bytes).unwrap();
            mine.insert(at, bytes);
        }
        let back = mine
            .iter()
            .nth(usize::try_from(r.below(mine.len() as u64)).unwrap());
        let (at, expected) = back.unwrap();
        let mut bytes = vec![0x5a; 512];
        disk.read_at(*at, &mut bytes).unwrap();
        assert!(&bytes == expected, "sector at {at}");
    }
    mine.into_iter().collect()
}

/// Sends random requests to a range that only this thread uses.
fn ranges(disk: &dyn BlockWrite, start: u64, len: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let mut model = vec![0; usize::try_from(len).unwrap()];
    disk.read_at(start, &mut model).unwrap();
    for _ in 0..60 {
        let at = r.below(len);
        let n = (1 + r.below(200_000)).min(len - at);
        let there = usize::try_from(at).unwrap()..usize::try_from(at + n).unwrap();
        match r.below(6) {
            0 => {
                disk.write_zeroes(start + at, n).unwrap();
                model[there].fill(0);
            }
            1 => {
                disk.discard(start + at, n).unwrap();
                disk.read_at(start + at, &mut model[there]).unwrap();
            }
            _ => {
                let bytes = content(n, r.next());
                disk.write_at(start + at, &bytes).unwrap();
                model[there].copy_from_slice(&bytes);
            }
        }
    }
    model
}

fn write_at_once(dir: &Path, case: &Case) {
    case.make(dir);
    let bytes = converted(dir, "disk.qcow2", &[]).unwrap();
    let mut model = Model::new(bytes, true);
    let size = model.bytes.len() as u64;
    let half = size / 2 / SECTOR * SECTOR;
    let part = (size - half) / THREADS;
    let image = open(dir, "disk.qcow2");
    let disk = image.device();
    let done = AtomicBool::new(false);
    let (left, parts) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                disk.flush().unwrap();
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let disk = disk.as_ref();
                scope.spawn(move || {
                    let left = sectors(disk, thread, half, case.seed);
                    let start = half + thread * part;
                    (left, ranges(disk, start, part, case.seed + thread))
                })
            })
            .collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        results
            .into_iter()
            .map(Result::unwrap)
            .unzip::<_, _, Vec<_>, Vec<_>>()
    });
    for (at, bytes) in left.into_iter().flatten() {
        let at = usize::try_from(at).unwrap();
        model.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    for (thread, bytes) in (0..).zip(parts) {
        let at = usize::try_from(half + thread * part).unwrap();
        model.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    model.compare_all(disk.as_ref());
    drop(disk);
    image.close().unwrap();
    is_clean(dir, "disk.qcow2");
    model.compare(0, &converted(dir, "disk.qcow2", &[]).unwrap());
}

#[test]
fn threads_write_at_once() {
    if !have_qemu() {
        return;
    }
    let plain = Case::plain();
    let cases = [
        Case {
            backing: Backing::Qcow2,
            ..plain
        },
        Case {
            cluster_size: 4096,
            backing: Backing::Raw,
            snapshots: 1,
            ..plain
        },
        Case {
            extended_l2: true,
            backing: Backing::RawShorter,
            ..plain
        },
        Case {
            data_file: DataFile::External,
            ..plain
        },
        Case {
            cluster_size: 512,
            ..plain
        },
    ];
    let seed = number("DISKFS_QEMU_SEED", 1);
    for (seed, case) in (seed..).zip(cases) {
        let dir = tempfile::tempdir().unwrap();
        write_at_once(dir.path(), &Case { seed, ..case });
        run(dir.path(), "qemu-img", &["info", "disk.qcow2"]);
    }
}
