//! Tests with a map that is a list of runs.

use std::sync::atomic::{AtomicUsize, Ordering};

use diskfs_block::{Counting, ErrorKind, MappedRun, Memory};

use super::*;

const UNIT: CompressedUnit = CompressedUnit {
    file: 1,
    offset: 100,
    stored_bytes: 10,
    unpacked_bytes: 1000,
};

/// A map of runs, given by their lengths and places.
#[derive(Debug, Default)]
struct List {
    runs: Vec<(u64, RunStorage)>,
    unpacked: AtomicUsize,
}

impl ImageMap for List {
    fn size_bytes(&self) -> u64 {
        self.runs.iter().map(|(len, _)| len).sum()
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let mut start = 0;
        for (len, storage) in &self.runs {
            if offset < start + len || *len == 0 {
                return Ok(MappedRun {
                    len_bytes: (start + len).saturating_sub(offset).min(max_len),
                    storage: storage.skip(offset - start),
                });
            }
            start += len;
        }
        Err(Error::invalid("past the end").at(offset))
    }

    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        assert_eq!(unit, UNIT);
        self.unpacked.fetch_add(1, Ordering::Relaxed);
        Ok((0..1000_u32).map(|n| n.to_le_bytes()[0]).collect())
    }
}

const fn stored(file: usize, offset: u64) -> RunStorage {
    RunStorage::Stored { file, offset }
}

const fn packed(skip_bytes: u64) -> RunStorage {
    RunStorage::Compressed {
        unit: UNIT,
        skip_bytes,
    }
}

/// Files 0 and 1 of 4096 bytes, with counters of reads; 10 bytes may be missing at their ends.
fn mapped(runs: &[(u64, RunStorage)]) -> (Mapped, Arc<List>, Arc<Counting<Memory>>) {
    let list = Arc::new(List {
        runs: runs.to_vec(),
        ..List::default()
    });
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let file = Arc::new(Counting::new(Arc::new(Memory::new(bytes))));
    let mapped = Mapped::new(MappedParts {
        path: "image".into(),
        map: list.clone(),
        files: vec![file.clone(), Arc::new(Memory::new(vec![9; 4096]))],
        tables: None,
        rules: StorageRules {
            missing_max_bytes: 10,
            ..StorageRules::default()
        },
        parent: None,
        units: Arc::new(UnitCache::new(0)),
        layer: 1,
    });
    (mapped, list, file)
}

#[test]
fn contiguous_runs_are_one_read() {
    let runs: Vec<_> = (0..64).map(|n| (32, stored(0, 100 + 32 * n))).collect();
    let (mapped, _, file) = mapped(&runs);
    let mut buf = vec![0; 2048];
    mapped.read_at(0, &mut buf).unwrap();
    assert_eq!(
        (buf[0], buf[1000]),
        (100, u8::try_from(1100 % 256).unwrap())
    );
    assert_eq!(file.counts().reads, 1);
    assert_eq!(mapped.status_at(0, 2048).unwrap().len_bytes, 2048);
}

#[test]
fn runs_of_all_kinds() {
    let (mapped, list, _) = mapped(&[
        (10, stored(0, 5)),
        (10, RunStorage::Zero),
        (10, stored(1, 5)),
        (10, RunStorage::Absent),
        (500, packed(0)),
        (500, packed(500)),
        (5, stored(0, 4091)),
    ]);
    mapped.will_need(0, u64::MAX);
    let mut buf = vec![1; 1045];
    mapped.read_at(0, &mut buf).unwrap();
    assert_eq!(buf[..10], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    assert_eq!(buf[10..20], [0; 10]);
    assert_eq!(buf[20..30], [9; 10]);
    assert_eq!(buf[30..40], [0; 10]);
    assert_eq!(
        (buf[40], buf[40 + 700]),
        (0, u8::try_from(700 % 256).unwrap())
    );
    // Both runs are one unit, which was wanted whole.
    assert_eq!(list.unpacked.load(Ordering::Relaxed), 1);
    // Parts of a unit are kept.
    for at in [41, 500, 1039] {
        mapped.read_at(at, &mut buf[..1]).unwrap();
    }
    assert_eq!(list.unpacked.load(Ordering::Relaxed), 2);
    assert!(!mapped.status_at(35, 5).unwrap().present);
    assert!(mapped.status_at(45, 5).unwrap().compressed);
}

#[test]
fn data_past_the_end_of_a_file_is_corrupt() {
    let (mapped, ..) = mapped(&[(20, stored(0, 4086)), (20, stored(0, 4090))]);
    let mut buf = [1; 20];
    mapped.read_at(0, &mut buf).unwrap();
    assert_eq!(buf[10..], [0; 10]);
    let e = mapped.read_at(20, &mut buf).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(4096)));
    assert!(e.to_string().starts_with("image: "), "{e}");
}

#[test]
fn a_wrong_map_is_an_error() {
    let (empty, ..) = mapped(&[(0, RunStorage::Zero)]);
    assert!(empty.read_at(0, &mut [0]).is_err());
    let (missing, ..) = mapped(&[(20, stored(2, 0))]);
    assert!(missing.read_at(0, &mut [0]).is_err());
    missing.will_need(0, 20);
    let (short, ..) = mapped(&[(20, packed(990))]);
    assert!(short.read_at(0, &mut [0; 20]).is_err());
}
