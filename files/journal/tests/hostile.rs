//! Tests with invalid files: every call returns in time, without a panic.

mod tools;

use std::time::{Duration, Instant};

use diskfs_block::ErrorKind;
use diskfs_journal::Entry;
use tools::{fixture, open};

/// Offsets of fields of the header.
const N_ENTRIES: usize = 152;
const ENTRY_ARRAY_OFFSET: usize = 176;
const FIELD_HASH_TABLE_OFFSET: usize = 120;

fn word(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the fixture without the free space at its end.
fn short_fixture() -> Vec<u8> {
    let mut bytes = fixture();
    let tail = word(&bytes, 136);
    bytes.truncate(tail + word(&bytes, tail + 8));
    bytes
}

/// Reads everything that can be read, and returns the number of intact entries.
fn read_all(bytes: Vec<u8>) -> usize {
    let Ok(journal) = open(bytes) else {
        return 0;
    };
    let read = |entry: &Entry| entry.fields(1 << 16).all(|field| field.is_ok());
    let _ = journal.boots();
    let _ = journal.entries().rev().flatten().count();
    journal.entries().flatten().filter(read).count()
}

#[test]
fn every_byte_of_the_header_may_be_anything() {
    let bytes = short_fixture();
    assert_eq!(read_all(bytes.clone()), 300);
    let begun = Instant::now();
    for at in 0..272 {
        for value in [0, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80] {
            let mut broken = bytes.clone();
            broken[at] = value;
            read_all(broken);
        }
    }
    assert!(
        begun.elapsed() < Duration::from_mins(2),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn any_byte_of_the_objects_may_be_anything() {
    let bytes = short_fixture();
    let mut state = 1_u64;
    for _ in 0..400 {
        let mut broken = bytes.clone();
        for _ in 0..4 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % broken.len();
            broken[at] = state.to_le_bytes()[2];
        }
        read_all(broken);
    }
}

#[test]
fn a_file_that_is_cut_gives_what_is_there() {
    let bytes = short_fixture();
    let mut last = 0;
    for len in (0..bytes.len()).step_by(997) {
        let whole = read_all(bytes[..len].to_vec());
        assert!(whole >= last || whole == 0, "{len}: {whole} after {last}");
        last = whole;
    }
    assert!(last > 250, "{last}");
}

#[test]
fn a_chain_that_circles_ends_with_an_error() {
    let mut bytes = short_fixture();
    let first = word(&bytes, ENTRY_ARRAY_OFFSET);
    put(&mut bytes, first + 16, first as u64);
    let journal = open(bytes).unwrap();
    let read: Vec<_> = journal.entries().collect();
    let (last, others) = read.split_last().unwrap();
    assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!others.is_empty() && others.iter().all(Result::is_ok));
    assert_eq!(journal.entries().rev().flatten().count(), others.len());
}

#[test]
fn an_entry_comes_once() {
    let mut bytes = short_fixture();
    let array = word(&bytes, ENTRY_ARRAY_OFFSET);
    let first = word(&bytes, array + 24) as u64;
    put(&mut bytes, array + 32, first);
    let journal = open(bytes).unwrap();
    let errors = journal.entries().filter(Result::is_err).count();
    assert_eq!((errors, journal.entries().count()), (1, 300));
}

#[test]
fn sizes_that_make_no_sense_cost_the_object() {
    let bytes = short_fixture();
    let array = word(&bytes, ENTRY_ARRAY_OFFSET);
    let entry = word(&bytes, array + 24);
    let data = word(&bytes, entry + 64);
    for size in [0, 1, 15, 63, 1 << 40, 1 << 63, u64::MAX] {
        let mut broken = bytes.clone();
        put(&mut broken, entry + 8, size);
        let journal = open(broken).unwrap();
        assert!(journal.entries().next().unwrap().is_err());
        assert_eq!(journal.entries().flatten().count(), 299);
        let mut broken = bytes.clone();
        put(&mut broken, data + 8, size);
        let journal = open(broken).unwrap();
        let entry = journal.entries().next().unwrap().unwrap();
        assert_eq!(entry.fields(100).filter(Result::is_err).count(), 1);
        let mut broken = bytes.clone();
        put(&mut broken, array + 8, size);
        let journal = open(broken).unwrap();
        // An array of 63 bytes has room for four items, and leads to further arrays.
        assert!(size == 63 || journal.entries().all(|entry| entry.is_err()));
    }
}

#[test]
fn a_count_of_entries_that_is_not_true_adds_none() {
    let mut bytes = fixture();
    put(&mut bytes, N_ENTRIES, u64::MAX);
    assert_eq!(read_all(bytes.clone()), 300);
    put(&mut bytes, N_ENTRIES, 10);
    assert_eq!(read_all(bytes), 10);
}

#[test]
fn broken_indices_are_no_loops() {
    let mut bytes = short_fixture();
    let table = word(&bytes, FIELD_HASH_TABLE_OFFSET);
    let field = (0..333)
        .map(|n| word(&bytes, table + n * 16))
        .find(|head| *head != 0);
    let field = field.unwrap();
    // Make each field link to itself.
    put(&mut bytes, field + 24, field as u64);
    let _ = open(bytes).unwrap().boots();
    let mut bytes = short_fixture();
    put(&mut bytes, FIELD_HASH_TABLE_OFFSET + 8, 1 << 40);
    assert_eq!(
        open(bytes).unwrap().boots().unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}

/// Replaces the long value of the fixture, which is compressed with ZSTD, with another payload.
fn with_payload(flag: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = fixture();
    let array = word(&bytes, ENTRY_ARRAY_OFFSET);
    let entry = word(&bytes, array + 24);
    // Put it into the free space at the end of the file.
    let new = bytes.len() - (payload.len() + 64).next_multiple_of(8);
    let size = (payload.len() + 64) as u64;
    bytes[new] = 1;
    bytes[new + 1] = flag;
    put(&mut bytes, new + 8, size);
    bytes[new + 64..new + 64 + payload.len()].copy_from_slice(payload);
    put(&mut bytes, entry + 64, new as u64);
    bytes
}

#[test]
fn bombs_are_unpacked_as_far_as_is_asked_for() {
    let bomb = [b"A=".to_vec(), vec![0; 32 << 20]].concat();
    let zstd = zstd::stream::encode_all(&bomb[..], 3).unwrap();
    let lz4 = [
        &(bomb.len() as u64).to_le_bytes()[..],
        &lz4_flex::block::compress(&bomb),
    ]
    .concat();
    for (flag, payload) in [(4, zstd), (2, lz4)] {
        let journal = open(with_payload(flag, &payload)).unwrap();
        let entry = journal.entries().next().unwrap().unwrap();
        let field = entry.fields(1000).next().unwrap().unwrap();
        assert_eq!((field.value().len(), field.is_truncated()), (1000, true));
        assert_eq!(field.name(), b"A");
        let all = entry.fields(u64::MAX).next().unwrap().unwrap();
        assert_eq!((all.value().len(), all.is_truncated()), (32 << 20, false));
    }
}

#[test]
fn packed_values_that_lie_are_refused() {
    // LZ4 values that claim 2^60 bytes, or more than their block can have.
    let lying = |size: u64| [&size.to_le_bytes()[..], b"\x10A"].concat();
    for (flag, payload) in [
        (2, lying(1 << 60)),
        (2, lying(1 << 20)),
        (2, vec![1, 2, 3]),
        (4, b"no frame".to_vec()),
        (1, b"no stream".to_vec()),
        (8, b"A=b".to_vec()),
        (3, b"A=b".to_vec()),
        (0, b"no name".to_vec()),
        (0, b"\x1b[2J=x".to_vec()),
    ] {
        let journal = open(with_payload(flag, &payload)).unwrap();
        let entry = journal.entries().next().unwrap().unwrap();
        let fields: Vec<_> = entry.fields(1000).collect();
        assert!(fields[0].is_err(), "{flag}: {payload:?}: {fields:?}");
        assert!(fields[1..].iter().all(Result::is_ok) && fields.len() > 5);
    }
}
