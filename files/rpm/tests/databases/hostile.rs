//! Tests with invalid databases: every call returns in bounded time, with errors for what is
//! invalid.

use diskfs_block::{BlockRead, ErrorKind, Memory, Result};
use diskfs_rpm::{Database, Package};
use proptest::prelude::*;

use crate::facts::bytes;

const SQLITE: &[u8] = include_bytes!("tiny.sqlite.zst");
const LOG: &[u8] = include_bytes!("tiny.sqlite-wal.zst");
const NDB: &[u8] = include_bytes!("tiny.ndb.zst");
const BDB: &[u8] = include_bytes!("tiny.bdb.zst");

/// The maximum length of a list. A list ends at the hundredth error.
const MAX_ITEMS: usize = 1000;

fn read(main: &[u8], log: Option<&[u8]>) -> Result<Vec<Result<Package>>> {
    let main = Memory::new(main);
    let log = log.map(Memory::new);
    let log = log.as_ref().map(|log| -> &dyn BlockRead { log });
    let database = Database::open(&main, log)?;
    let items: Vec<_> = database.packages().take(MAX_ITEMS).collect();
    assert!(items.len() < MAX_ITEMS, "the list does not end");
    Ok(items)
}

/// Returns the numbers of packages and of errors.
fn counts(main: &[u8]) -> (usize, usize) {
    let items = read(main, None).unwrap();
    let packages = items.iter().filter(|item| item.is_ok()).count();
    (packages, items.len() - packages)
}

fn errors(main: &[u8]) -> String {
    let items = read(main, None).unwrap();
    let errors = items.into_iter().filter_map(Result::err);
    let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
    errors.join("; ")
}

#[test]
fn every_byte_of_each() {
    for (whole, packages) in [(SQLITE, 4), (NDB, 3), (BDB, 4)] {
        let whole = bytes(whole);
        assert_eq!(counts(&whole), (packages, 0));
        let mut lost = 0;
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            lost += usize::from(read(&broken, None).is_err());
        }
        assert!(lost > 10 && lost < whole.len() / 10, "{lost}");
    }
}

#[test]
fn every_byte_of_a_log() {
    let (main, log) = (bytes(SQLITE), bytes(LOG));
    for at in (0..log.len()).step_by(7).chain(0..56) {
        let mut broken = log.clone();
        broken[at] ^= 0x80;
        // An incomplete transaction is ignored.
        let items = read(&main, Some(&broken)).unwrap();
        assert!(items.iter().all(Result::is_ok) && items.len() >= 3, "{at}");
    }
}

#[test]
fn every_length() {
    for whole in [SQLITE, NDB, BDB] {
        let whole = bytes(whole);
        for len in (0..whole.len()).step_by(61) {
            let items = read(&whole[..len], None);
            let is_whole = items.is_ok_and(|items| items.iter().all(Result::is_ok));
            assert!(!is_whole, "{len} bytes of {}", whole.len());
        }
    }
}

#[test]
fn what_is_none() {
    for main in [
        &b""[..],
        b"SQLite format 3",
        &[0; 4096],
        b"RpmP",
        &[0x61; 512],
    ] {
        let error = read(main, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

/// Returns the offset of a table's interior page in SQLITE: it has the type 0x05.
fn interior_page(main: &[u8]) -> Option<usize> {
    (1..main.len() / 512)
        .map(|page| page * 512)
        .find(|at| main[*at] == 5)
}

#[test]
fn pages_in_a_circle() {
    let mut main = bytes(SQLITE);
    let root = interior_page(&main).expect("the table has more than a page");
    let number = (root / 512 + 1) as u32;
    main[root + 8..root + 12].copy_from_slice(&number.to_be_bytes());
    assert!(errors(&main).contains("is used twice"), "{}", errors(&main));
}

#[test]
fn overflow_pages_in_a_circle() {
    // Make every overflow page link to itself.
    let mut main = bytes(SQLITE);
    for page in 1..main.len() / 512 {
        let at = page * 512;
        let next = u32::from_be_bytes(main[at..at + 4].try_into().unwrap());
        if next as usize == page + 2 {
            main[at..at + 4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
        }
    }
    assert!(errors(&main).contains("is used twice"), "{}", errors(&main));
    let mut main = bytes(BDB);
    for page in 1..main.len() / 512 {
        let at = page * 512;
        if main[at + 25] == 7 {
            main[at + 16..at + 20].copy_from_slice(&(page as u32).to_le_bytes());
        }
    }
    assert!(errors(&main).contains("is used twice"), "{}", errors(&main));
}

#[test]
fn a_broken_header_costs_its_package() {
    for (whole, packages) in [(SQLITE, 4), (NDB, 3), (BDB, 4)] {
        let mut main = bytes(whole);
        // The entry of the name: tag 1000, a text, at offset 2, count 1.
        let entry = [0, 0, 3, 0xe8, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 1];
        let at = main.windows(16).position(|bytes| bytes == entry);
        let at = at.expect("an entry that is not at the end of a page");
        main[at + 8..at + 12].copy_from_slice(&[0xff; 4]);
        assert_eq!(counts(&main), (packages - 1, 1));
        assert!(
            errors(&main).contains("invalid Name: missing NUL"),
            "{}",
            errors(&main)
        );
    }
}

#[test]
fn slots_on_one_header() {
    let mut main = bytes(NDB);
    let first: [u8; 16] = main[32..48].try_into().unwrap();
    for slot in main[32..4096].chunks_mut(16) {
        slot.copy_from_slice(&first);
    }
    assert!(errors(&main).contains("more blocks than the whole file"));
    let (packages, errors) = counts(&main);
    assert!(packages < 30 && errors == 101, "{packages} {errors}");
}

#[test]
fn what_is_not_done_is_reported_by_name() {
    let unsupported = |whole: &[u8], at: usize, value: u8, words: &str| {
        let mut main = bytes(whole);
        main[at] = value;
        let error = read(&main, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    unsupported(BDB, 16, 7, "version 7");
    unsupported(BDB, 24, 1, "encrypted");
    unsupported(BDB, 26, 1, "checksums");
    unsupported(NDB, 4, 1, "version 1");
    unsupported(SQLITE, 59, 2, "text encoding");
    unsupported(SQLITE, 19, 9, "version 9");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_changes(
        which in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        structures in prop::collection::vec((0_usize..64, 0_usize..64, any::<u8>()), 0..8),
    ) {
        let mut main = bytes([SQLITE, NDB, BDB][which]);
        let len = main.len();
        for (at, value) in changes {
            main[at.index(len)] = value;
        }
        // The starts of pages, where most structures are.
        for (page, at, value) in structures {
            if let Some(byte) = main.get_mut(page * 512 + at) {
                *byte = value;
            }
        }
        let _ = read(&main, None);
    }
}
