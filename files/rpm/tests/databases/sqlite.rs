//! Tests of SQLite: databases written by rpm, and changed by SQLite itself.

use std::path::Path;

use diskfs_block::{BlockRead, File, Memory};
use diskfs_rpm::{Database, Format};

use crate::facts::{assert_same, bytes, fixture, lines, sorted_lines};
use crate::guest::{guest, python, rpm, said};

/// Returns the lines of the database in a directory, with its log if it has one.
fn found(directory: &Path) -> Vec<String> {
    let main = File::open(directory.join("rpmdb.sqlite")).unwrap();
    let wal = File::open(directory.join("rpmdb.sqlite-wal")).ok();
    let wal = wal.as_ref().map(|wal| -> &dyn BlockRead { wal });
    lines(&main, wal, Format::Sqlite)
}

#[test]
fn what_rpm_made() {
    let Some(guest) = guest() else { return };
    assert_same(
        &found(&guest.database()),
        &said("sqlite", &guest.database()),
    );
}

/// The maximum length of a description.
const DESCRIPTION_BYTES: usize = 16 << 10;

#[test]
fn descriptions_and_the_beginnings_of_long_ones() {
    let Some(guest) = guest() else { return };
    let query = ["-qa", "--qf", "%{NAME} %{DESCRIPTION}\u{1e}"];
    let said = rpm("sqlite", &guest.database(), query);
    let mut expected: Vec<&str> = said.split_terminator('\u{1e}').collect();
    expected.sort_unstable();
    let main = File::open(guest.database().join("rpmdb.sqlite")).unwrap();
    let database = Database::open(&main, None).unwrap();
    let found = database.packages().map(|package| {
        let package = package.unwrap();
        format!("{} {}", package.name, package.description.unwrap())
    });
    let mut found: Vec<String> = found.collect();
    found.sort_unstable();
    assert_eq!(found.len(), expected.len());
    let mut cut = 0;
    for (found, expected) in found.iter().zip(expected) {
        let name_bytes = found.find(' ').unwrap() + 1;
        let whole = &expected[..expected.len().min(name_bytes + DESCRIPTION_BYTES)];
        assert_eq!(found, whole);
        cut += usize::from(whole.len() < expected.len());
    }
    assert!(cut > 0);
}

/// A script that rewrites the database with another page size.
const VACUUM: &str = r#"
import shutil, sqlite3, sys
shutil.copy(sys.argv[1] + "/rpmdb.sqlite", sys.argv[2])
db = sqlite3.connect(sys.argv[2] + "/rpmdb.sqlite", isolation_level=None)
db.execute("PRAGMA journal_mode=DELETE")
db.execute("PRAGMA page_size=" + sys.argv[3])
db.execute("VACUUM")
"#;

#[test]
fn pages_of_every_size() {
    let Some(guest) = guest() else { return };
    let expected = said("sqlite", &guest.database());
    for page_bytes in ["512", "1024", "8192", "65536"] {
        let dir = tempfile::tempdir().unwrap();
        let from = guest.database();
        python(VACUUM, [&*from, dir.path(), Path::new(page_bytes)]);
        assert_same(&found(dir.path()), &expected);
    }
}

/// A script that makes a log with frames of an older log after its own, with pages that several
/// transactions wrote, and with a transaction that was never committed. The files are copied while
/// the database is open. Then it prints what SQLite finds in them.
const LOG: &str = r#"
import shutil, sqlite3, sys
source, work, taken = sys.argv[1:4]
shutil.copy(source + "/rpmdb.sqlite", work)
db = sqlite3.connect(work + "/rpmdb.sqlite", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA wal_autocheckpoint=0")
rows = db.execute("SELECT hnum, blob FROM Packages ORDER BY hnum").fetchall()
def again(rows, first):
    db.execute("BEGIN")
    for number, (_, blob) in enumerate(rows):
        db.execute("INSERT INTO Packages VALUES (?, ?)", (first + number, blob))
    db.execute("COMMIT")
again(rows, 1000)
db.execute("DELETE FROM Packages WHERE hnum >= 1000")
db.execute("PRAGMA wal_checkpoint(RESTART)")
for first in range(2000, 2040, 10):
    again(rows[:7], first)
db.execute("DELETE FROM Packages WHERE hnum % 3 = 0")
again(rows[-3:], 5000)
# Pages that don't go into this are written to the log before they are committed.
db.execute("PRAGMA cache_size=5")
db.execute("PRAGMA cache_spill=1")
db.execute("BEGIN")
db.execute("DELETE FROM Packages WHERE hnum % 2 = 0")
for number, (_, blob) in enumerate(rows):
    db.execute("INSERT INTO Packages VALUES (?, ?)", (9000 + number, blob))
for name in "rpmdb.sqlite", "rpmdb.sqlite-wal":
    shutil.copy(work + "/" + name, taken)
"#;

#[test]
fn a_log_that_was_not_written_back() {
    let Some(guest) = guest() else { return };
    let [work, taken, asked] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let from = guest.database();
    python(LOG, [&*from, work.path(), taken.path()]);
    // SQLite writes the log back, so it gets a copy.
    for name in ["rpmdb.sqlite", "rpmdb.sqlite-wal"] {
        std::fs::copy(taken.path().join(name), asked.path().join(name)).unwrap();
    }
    let with_log = found(taken.path());
    assert_same(&with_log, &said("sqlite", asked.path()));
    std::fs::remove_file(taken.path().join("rpmdb.sqlite-wal")).unwrap();
    let without = found(taken.path());
    assert_ne!(with_log, without);
    assert_same(&without, &said("sqlite", taken.path()));
}

#[test]
fn a_log_is_read_as_far_as_it_is_whole() {
    let main = fixture(include_bytes!("tiny.sqlite.zst"));
    let log = bytes(include_bytes!("tiny.sqlite-wal.zst"));
    let numbered = |log: &[u8]| {
        let log = Memory::new(log);
        lines(&main, Some(&log), Format::Sqlite)
    };
    let before = numbered(&[]);
    let whole = numbered(&log);
    let expected = sorted_lines(include_str!("plain.sqlite.txt"));
    assert_same(&before, &expected);
    assert_same(&whole, &expected);
    // Without its last transaction, a package is missing that the first one removed.
    let without_last = (0..log.len())
        .rev()
        .step_by(536)
        .map(|len| numbered(&log[..len]).len());
    let counts: Vec<usize> = without_last.collect();
    assert!(counts.contains(&(expected.len() - 1)), "{counts:?}");
    let mut damaged = log.clone();
    damaged[40] ^= 1;
    assert_same(&numbered(&damaged), &before);
}

/// Returns the log as a machine of the other byte order writes it, with checksums of numbers in
/// that order.
fn big_endian(mut log: Vec<u8>) -> Vec<u8> {
    fn sums(bytes: &[u8], [mut one, mut two]: [u32; 2]) -> [u32; 2] {
        let words = bytes
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        let words: Vec<u32> = words.collect();
        for pair in words.chunks(2) {
            one = one.wrapping_add(pair[0]).wrapping_add(two);
            two = two.wrapping_add(pair[1]).wrapping_add(one);
        }
        [one, two]
    }
    let put = |place: &mut [u8], sums: [u32; 2]| {
        place[..4].copy_from_slice(&sums[0].to_be_bytes());
        place[4..8].copy_from_slice(&sums[1].to_be_bytes());
    };
    log[3] = 0x83;
    let mut sum = sums(&log[..24], [0; 2]);
    put(&mut log[24..32], sum);
    for frame in log[32..].chunks_mut(24 + 512) {
        sum = sums(&frame[24..], sums(&frame[..8], sum));
        put(&mut frame[16..24], sum);
    }
    log
}

#[test]
fn a_log_of_the_other_byte_order() {
    let main = fixture(include_bytes!("tiny.sqlite.zst"));
    let log = bytes(include_bytes!("tiny.sqlite-wal.zst"));
    // Use the log up to the transaction that removes a package: with more, all logs look the same.
    let of = |log: &[u8]| lines(&main, Some(&Memory::new(log)), Format::Sqlite);
    let ends: Vec<usize> = (32..log.len()).step_by(536).collect();
    let first = ends.into_iter().find(|end| of(&log[..*end]).len() == 3);
    let log = &log[..first.expect("a transaction that removes a package")];
    let other = big_endian(log.to_vec());
    assert_same(&of(&other), &of(log));
    let mut mixed = other.clone();
    mixed[3] = 0x82;
    assert_eq!(of(&mixed).len(), 4);
}

#[test]
fn a_database_without_packages() {
    let Some(()) = diskfs_fixtures::require("python3") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE x (y)')";
    let path = dir.path().join("rpmdb.sqlite");
    python(script, [&*path]);
    let error = Database::open(&File::open(&path).unwrap(), None).unwrap_err();
    assert_eq!(error.kind(), diskfs_block::ErrorKind::NotFound);
}
