//! Package databases of rpm.

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory, Slice, read_within};
use diskfs_rpm::Database;

use crate::Sparse;

/// The offset of the write-ahead log in an image. The database is before it.
const LOG_START: u64 = 1 << 20;

/// The maximum length of the log.
const LOG_BYTES: u64 = 64 << 10;

/// The maximum number of packages, more than a list can have.
const MAX_PACKAGES: usize = 100_000;

/// Reads the packages. The log gets valid checksums, which mutations never hit.
pub(crate) fn packages(device: &Arc<dyn BlockRead>) {
    let size_bytes = device.size_bytes();
    let Ok(main) = Slice::new(Arc::clone(device), 0, size_bytes.min(LOG_START)) else {
        return;
    };
    let log = size_bytes.saturating_sub(LOG_START).min(LOG_BYTES);
    let log = usize::try_from(log).unwrap_or(0);
    let log = read_within(&**device, LOG_START, log).ok().flatten();
    let log = Memory::new(log.map(sealed).unwrap_or_default());
    if let Ok(database) = Database::open(&main, Some(&log)) {
        let count = database.packages().take(MAX_PACKAGES).count();
        assert!(count < MAX_PACKAGES, "the list does not end");
    }
}

/// Returns the log with valid checksums.
fn sealed(mut log: Vec<u8>) -> Vec<u8> {
    if log.len() < 32 {
        return log;
    }
    let word = |log: &[u8], at: usize| log[at..at + 4].try_into().expect("four bytes");
    let page_bytes = u32::from_be_bytes(word(&log, 8)) as usize;
    let is_big = log[3] & 1 == 1;
    let number = |field: [u8; 4]| {
        if is_big {
            u32::from_be_bytes(field)
        } else {
            u32::from_le_bytes(field)
        }
    };
    let add = |log: &[u8], range: std::ops::Range<usize>, mut sums: [u32; 2]| {
        for at in range.step_by(8) {
            sums[0] = sums[0].wrapping_add(number(word(log, at)).wrapping_add(sums[1]));
            sums[1] = sums[1].wrapping_add(number(word(log, at + 4)).wrapping_add(sums[0]));
        }
        sums
    };
    let put = |log: &mut [u8], at: usize, sums: [u32; 2]| {
        log[at..at + 4].copy_from_slice(&sums[0].to_be_bytes());
        log[at + 4..at + 8].copy_from_slice(&sums[1].to_be_bytes());
    };
    let mut sums = add(&log, 0..24, [0; 2]);
    put(&mut log, 24, sums);
    let frame_bytes = page_bytes.saturating_add(24);
    let frames = (32..log.len()).step_by(frame_bytes);
    for at in frames.filter(|_| page_bytes.is_multiple_of(8)) {
        if log.len() - at < frame_bytes {
            break;
        }
        sums = add(&log, at..at + 8, sums);
        sums = add(&log, at + 24..at + frame_bytes, sums);
        put(&mut log, at + 16, sums);
    }
    log
}

/// Returns small databases of all formats.
pub(crate) fn seeds() -> Vec<(&'static str, Sparse)> {
    const DIR: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../files/rpm/tests/databases/"
    );
    let read = |name: &str| {
        let compressed = std::fs::read(format!("{DIR}{name}.zst")).unwrap_or_default();
        zstd::decode_all(&*compressed).unwrap_or_default()
    };
    let image = |bytes: &[u8]| {
        let mut image = Sparse::zeroes(bytes.len() as u64);
        image.write(0, bytes);
        image
    };
    let main = read("tiny.sqlite");
    let log = read("tiny.sqlite-wal");
    let mut with_log = Sparse::zeroes(LOG_START + log.len() as u64);
    with_log.write(0, &main);
    with_log.write(LOG_START, &log);
    vec![
        ("sqlite", image(&main)),
        ("sqlite with a log", with_log),
        ("ndb", image(&read("tiny.ndb"))),
        ("bdb", image(&read("tiny.bdb"))),
    ]
}
