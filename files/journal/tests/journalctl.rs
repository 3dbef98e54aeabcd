//! Tests against systemd: files that its programs write are read as journalctl reads them.

mod tools;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{Counting, File};
use diskfs_journal::{Entry, FileState, Journal};
use tools::{WriterOptions, entries, export, have_systemd, journalctl, kinds, make, open};

/// A function that compresses a value.
type Pack = fn(&[u8]) -> Vec<u8>;

fn assert_same(ours: &[u8], theirs: &[u8], what: &str) {
    if ours == theirs {
        return;
    }
    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let range = same.saturating_sub(100)..(same + 200).min(bytes.len());
        bytes[range].escape_ascii().to_string()
    };
    let (len, expected) = (ours.len(), theirs.len());
    let (ours, theirs) = (around(ours), around(theirs));
    panic!("{what}, byte {same} of {len}, {expected}:\n{ours}\n{theirs}");
}

fn all(journal: &Journal) -> Vec<u8> {
    let entries = journal.entries().map(|entry| export(&entry.unwrap()));
    entries.collect::<Vec<_>>().concat()
}

fn assert_reads(path: &Path, what: &str) {
    let journal = Journal::open(Arc::new(File::open(path).unwrap())).unwrap();
    assert_same(&all(&journal), &journalctl(path, &["-o", "export"]), what);
    let back: Vec<u8> = journal
        .entries()
        .rev()
        .flat_map(|entry| export(&entry.unwrap()))
        .collect();
    assert_same(&back, &journalctl(path, &["-o", "export", "-r"]), what);
}

#[test]
fn every_kind_of_file_reads_as_journalctl_reads_it() {
    if !have_systemd() {
        return;
    }
    let text = entries(2000);
    for kind in kinds() {
        let directory = tempfile::tempdir().unwrap();
        let path = make(directory.path(), kind, &text);
        assert_reads(&path, &format!("{kind:?}"));
        let journal = open(fs::read(&path).unwrap()).unwrap();
        let header = journal.header();
        assert_eq!(header.incompatible.is_compact(), kind.compact);
        assert_eq!(header.incompatible.has_keyed_hash(), kind.keyed_hash);
        assert_eq!((header.entry_count, header.head_seqnum), (2000, 1));
        assert_eq!(journal.state(), FileState::Offline);
    }
}

/// Compresses in place each value that gets shorter by it, with methods that the installed systemd
/// does not write.
fn repack(bytes: &mut [u8], compact: bool, flag: u8, pack: impl Fn(&[u8]) -> Vec<u8>) -> usize {
    let word = |bytes: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    let head = if compact { 72 } else { 64 };
    let (mut at, tail) = (word(bytes, 88), word(bytes, 136));
    let mut packed_count = 0;
    while at <= tail {
        let size = word(bytes, at + 8);
        // An uncompressed data object.
        if bytes[at] == 1 && bytes[at + 1] == 0 && size > head + 100 {
            let packed = pack(&bytes[at + head..at + size]);
            if packed.len() < size - head {
                bytes[at + 1] = flag;
                let new = (head + packed.len()) as u64;
                bytes[at + 8..at + 16].copy_from_slice(&new.to_le_bytes());
                bytes[at + head..at + head + packed.len()].copy_from_slice(&packed);
                packed_count += 1;
            }
        }
        at += size.next_multiple_of(8);
    }
    bytes[12] |= flag;
    packed_count
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let options = lzma_rust2::XzOptions::with_preset(6);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let size = (bytes.len() as u64).to_le_bytes();
    [&size[..], &lz4_flex::block::compress(bytes)].concat()
}

#[test]
fn values_packed_with_xz_and_lz4_are_read() {
    if !have_systemd() {
        return;
    }
    for compact in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let kind = WriterOptions {
            compress: false,
            compact,
            keyed_hash: true,
        };
        let plain = fs::read(make(directory.path(), kind, &entries(300))).unwrap();
        let path = directory.path().join("packed.journal");
        let packers: [(u8, Pack); 2] = [(1, xz), (2, lz4)];
        for (flag, pack) in packers {
            let mut bytes = plain.clone();
            let count = repack(&mut bytes, compact, flag, pack);
            assert!(count > 100, "{count}");
            fs::write(&path, &bytes).unwrap();
            assert_reads(&path, &format!("flag {flag}, compact: {compact}"));
        }
    }
}

/// systemd-journal-remote wrote the fixture without compression. Then liblzma and liblz4 compressed
/// its messages in place.
#[test]
fn the_fixture_with_xz_and_lz4_is_read() {
    if !have_systemd() {
        return;
    }
    let packed = &include_bytes!("fixtures/packed.journal.zst")[..];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("packed.journal");
    fs::write(&path, zstd::stream::decode_all(packed).unwrap()).unwrap();
    assert_reads(&path, "the fixture");
}

#[test]
fn sealed_and_open_files_are_read_too() {
    if !have_systemd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kind = WriterOptions {
        compress: true,
        compact: true,
        keyed_hash: true,
    };
    let path = make(directory.path(), kind, &entries(50));
    let mut bytes = fs::read(&path).unwrap();
    let expected = all(&open(bytes.clone()).unwrap());
    // Set the compatible flag "sealed" and the state "online".
    bytes[8] |= 1;
    bytes[16] = 1;
    let journal = open(bytes).unwrap();
    assert!(journal.header().compatible.is_sealed());
    assert_eq!(journal.state(), FileState::Online);
    assert_same(&all(&journal), &expected, "online");
}

#[test]
fn boots_are_those_of_the_list() {
    if !have_systemd() {
        return;
    }
    for kind in kinds() {
        let directory = tempfile::tempdir().unwrap();
        let path = make(directory.path(), kind, &entries(1000));
        let journal = open(fs::read(&path).unwrap()).unwrap();
        let boots = journal.boots().unwrap();
        let list = String::from_utf8(journalctl(&path, &["--list-boots"])).unwrap();
        let listed = list
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let listed: Vec<&str> = listed.filter(|id| id.len() == 32).collect();
        let ids: Vec<String> = boots
            .iter()
            .map(|boot| boot.id.simple().to_string())
            .collect();
        assert_eq!(ids, listed);
        for boot in boots {
            let of_boot = |entry: &Entry| entry.boot_id == boot.id;
            let of_boot: Vec<_> = journal
                .entries()
                .map(Result::unwrap)
                .filter(of_boot)
                .collect();
            let (first, last) = (of_boot.first().unwrap(), of_boot.last().unwrap());
            assert_eq!(
                (boot.first_us, boot.last_us),
                (first.realtime_us, last.realtime_us)
            );
        }
    }
}

#[test]
fn the_last_entry_costs_a_few_reads() {
    if !have_systemd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kind = WriterOptions {
        compress: true,
        compact: true,
        keyed_hash: true,
    };
    let path = make(directory.path(), kind, &entries(4000));
    let device = Arc::new(Counting::new(Arc::new(File::open(&path).unwrap())));
    let journal = Journal::open(Arc::<Counting<File>>::clone(&device)).unwrap();
    let last = journal.entries().next_back().unwrap().unwrap();
    assert_eq!(last.realtime_us, journal.header().tail_realtime_us);
    let counts = device.counts();
    assert!(
        counts.reads < 30 && counts.read_bytes < 300_000,
        "{counts:?}"
    );
}

#[test]
fn times_are_found_by_halves() {
    let journal = open(tools::fixture()).unwrap();
    let times: Vec<u64> = journal
        .entries()
        .map(|entry| entry.unwrap().realtime_us)
        .collect();
    for at in [0, 1, 150, 299] {
        for (since, skipped) in [(times[at], at), (times[at] + 1, at + 1)] {
            let mut entries = journal.entries();
            entries.skip_before(since);
            assert_eq!(entries.remaining(), 300 - skipped as u64);
            let mut entries = journal.entries();
            entries.skip_after(since - 1);
            assert_eq!(entries.remaining(), skipped as u64);
        }
    }
}
