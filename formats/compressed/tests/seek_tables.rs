//! Files with a seek table: those of pyzstd, and tables that lie.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_block::{BlockRead, ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_compressed::{Codec, Compressed};
use diskfs_fixtures::{pattern, require};

/// A file in memory that counts the bytes that are read.
#[derive(Debug)]
struct Counted {
    file: Memory,
    read_bytes: AtomicU64,
}

impl BlockRead for Counted {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_bytes
            .fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, buf)
    }
}

fn open(file: Vec<u8>) -> Result<(Compressed, Arc<Counted>)> {
    let file = Arc::new(Counted {
        file: Memory::new(file),
        read_bytes: AtomicU64::new(0),
    });
    let opened = Compressed::open(file.clone(), Codec::Zstd)?;
    Ok((opened.expect("can be read in parts"), file))
}

/// Reads the whole disk.
fn read(compressed: &Compressed) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < compressed.size_bytes() {
        let run = compressed.run_at(bytes.len() as u64, u64::MAX)?;
        let RunStorage::Compressed { unit, .. } = run.storage else {
            panic!("{run:?}");
        };
        bytes.extend_from_slice(&compressed.decompress(unit)?);
    }
    Ok(bytes)
}

/// A frame: what is stored, its contents, and what the table says of them.
struct Entry {
    stored: Vec<u8>,
    contents: Vec<u8>,
    said: (u32, u32),
}

impl Entry {
    fn new(contents: &[u8]) -> Self {
        let stored = zstd::bulk::compress(contents, 1).unwrap();
        let said = (len_of(&stored), len_of(contents));
        Self {
            stored,
            contents: contents.to_vec(),
            said,
        }
    }

    /// A skippable frame of another kind.
    fn skippable() -> Self {
        let stored = b"\x51\x2a\x4d\x18\x04\0\0\0note".to_vec();
        let said = (len_of(&stored), 0);
        Self {
            stored,
            contents: Vec::new(),
            said,
        }
    }

    fn checksum(&self) -> u32 {
        // zstd has the same checksum at the end of a frame.
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        let frame = compressor.compress(&self.contents).unwrap();
        u32::from_le_bytes(*frame.last_chunk().unwrap())
    }
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Returns a file with a table.
fn file(entries: &[Entry], has_checksums: bool) -> Vec<u8> {
    let mut file: Vec<u8> = entries.iter().flat_map(|it| it.stored.clone()).collect();
    let mut table = Vec::new();
    for entry in entries {
        table.extend(entry.said.0.to_le_bytes());
        table.extend(entry.said.1.to_le_bytes());
        if has_checksums {
            table.extend(entry.checksum().to_le_bytes());
        }
    }
    table.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
    table.push(if has_checksums { 0x80 } else { 0 });
    table.extend(0x8f92_eab1_u32.to_le_bytes());
    file.extend(0x184d_2a5e_u32.to_le_bytes());
    file.extend(len_of(&table).to_le_bytes());
    file.extend(table);
    file
}

fn pieces() -> Vec<Entry> {
    let disk = pattern("disk", 300_000);
    disk.chunks(70_000).map(Entry::new).collect()
}

#[test]
fn only_the_table_is_read_to_open_a_file() {
    let disk = pattern("disk", 300_000);
    for has_checksums in [false, true] {
        let bytes = file(&pieces(), has_checksums);
        let table_bytes = 17 + 5 * if has_checksums { 12 } else { 8 };
        let (compressed, counted) = open(bytes).unwrap();
        let read_bytes = counted.read_bytes.load(Ordering::Relaxed);
        assert_eq!(read_bytes, table_bytes, "{has_checksums}");
        assert_eq!(compressed.unit_count(), 5);
        assert!(read(&compressed).unwrap() == disk);
    }
}

#[test]
fn frames_without_contents_are_read_over() {
    let disk = pattern("disk", 300_000);
    let mut entries = pieces();
    entries.insert(0, Entry::skippable());
    entries.insert(3, Entry::skippable());
    entries.insert(4, Entry::new(b""));
    entries.push(Entry::skippable());
    for has_checksums in [false, true] {
        let (compressed, _) = open(file(&entries, has_checksums)).unwrap();
        assert_eq!(compressed.unit_count(), 5);
        assert!(read(&compressed).unwrap() == disk);
    }
}

#[test]
fn a_table_that_lies_is_an_error() {
    let lie = |number: usize, change: fn(&mut Entry)| {
        let mut entries = pieces();
        change(&mut entries[number]);
        entries
    };
    let mut shifted = pieces();
    shifted[1].said.0 += 1;
    shifted[2].said.0 -= 1;
    let mut swapped = pieces();
    let (one, two) = (swapped[1].said, swapped[4].said);
    (swapped[1].said, swapped[4].said) = (two, one);
    let mut hidden = pieces();
    hidden[2].said.1 = 0;
    let mut merged = pieces();
    merged[0].said.0 += merged[1].said.0;
    merged[1].said.0 = 0;
    for (what, entries) in [
        ("longer", lie(1, |it| it.said.1 += 1)),
        ("shorter", lie(1, |it| it.said.1 -= 1)),
        ("contents in a skippable frame", {
            let mut entries = pieces();
            let mut skippable = Entry::skippable();
            skippable.said.1 = 7;
            entries.push(skippable);
            entries
        }),
        ("more than the file", lie(4, |it| it.said.0 += 1)),
        ("shifted", shifted),
        ("swapped", swapped),
        ("hidden", hidden),
        ("merged", merged),
    ] {
        let found = open(file(&entries, false)).and_then(|(it, _)| read(&it));
        let error = found.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        assert!(error.offset().is_some(), "{what}: {error}");
    }
    let mut wrong = pieces();
    wrong[3].contents[100] ^= 1;
    let (compressed, _) = open(file(&wrong, true)).unwrap();
    let error = read(&compressed).unwrap_err();
    assert!(error.to_string().contains("wrong checksum"), "{error}");
}

#[test]
fn a_table_in_the_middle_is_a_frame_like_others() {
    // Two files, one behind the other: the last table is about the last one only.
    let disk = pattern("disk", 300_000);
    let twice = file(&pieces(), false).repeat(2);
    let (compressed, _) = open(twice).unwrap();
    assert!(read(&compressed).unwrap() == disk.repeat(2));
}

/// Runs Python with pyzstd.
fn python(directory: &Path, script: &str) -> Vec<u8> {
    let mut command = Command::new("grpc-python");
    let command = command.args(["-W", "ignore", "-c", script]);
    let done = command.current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    done.stdout
}

#[test]
fn files_of_pyzstd_are_read() {
    if require("grpc-python").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = pattern("disk", (5 << 20) + 777);
    fs::write(dir.path().join("disk"), &disk).unwrap();
    let script = "
import pyzstd
disk = open('disk', 'rb').read()
with pyzstd.SeekableZstdFile('packed', 'wb', max_frame_content_size=700000) as out:
    out.write(disk)
# Frames without the length of their contents, which only the table has.
with pyzstd.SeekableZstdFile('flushed', 'wb', max_frame_content_size=1 << 30) as out:
    for at in range(0, len(disk), 600000):
        out.write(disk[at:at + 600000])
        out.flush(out.FLUSH_FRAME)
";
    python(dir.path(), script);
    for (name, units) in [("packed", 8), ("flushed", 9)] {
        let bytes = fs::read(dir.path().join(name)).unwrap();
        let (compressed, counted) = open(bytes).unwrap();
        assert_eq!(compressed.unit_count(), units, "{name}");
        let read_bytes = counted.read_bytes.load(Ordering::Relaxed);
        assert_eq!(read_bytes, 17 + 8 * units as u64, "{name}");
        assert!(read(&compressed).unwrap() == disk, "{name}");
    }
}
