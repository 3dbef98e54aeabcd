//! Files that the usual programs compress, read at any place; damaged ones.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, File, ImageMap, Memory, RunStorage};
use diskfs_compressed::{Codec, Compressed, DeviceReader, Streams, stream};
use diskfs_fixtures::{pattern, require};

/// A disk of 5 MiB and some bytes with a hole.
fn disk() -> Vec<u8> {
    let mut disk = pattern("disk", (5 << 20) + 777);
    disk[1 << 20..3 << 20].fill(0);
    disk
}

/// Compresses the disk by a program, and returns the compressed file.
fn compressed(dir: &Path, words: &[&str]) -> Vec<u8> {
    let plain = dir.join("disk.raw");
    fs::write(&plain, disk()).unwrap();
    let (program, words) = words.split_first().unwrap();
    let output = Command::new(program)
        .args(words)
        .arg(plain)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn open(bytes: Vec<u8>) -> diskfs_block::Result<Option<Compressed>> {
    let codec = Codec::of(&bytes).unwrap();
    Compressed::open(Arc::new(Memory::new(bytes)), codec)
}

/// Reads a range of the disk by the map.
fn read(compressed: &Compressed, mut offset: u64, len: usize) -> diskfs_block::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let run = compressed.run_at(offset, (len - bytes.len()) as u64)?;
        let RunStorage::Compressed { unit, skip_bytes } = run.storage else {
            panic!("{run:?}");
        };
        let unit = compressed.decompress(unit)?;
        let start = usize::try_from(skip_bytes).unwrap();
        let len = usize::try_from(run.len_bytes).unwrap();
        bytes.extend_from_slice(&unit[start..start + len]);
        offset += run.len_bytes;
    }
    Ok(bytes)
}

/// The commands that make files of many units.
const SEEKABLE: [&[&str]; 6] = [
    &["xz", "-c", "-T2", "--block-size=1MiB"],
    &["xz", "-c", "-0", "--block-size=700KiB", "--check=sha256"],
    &["xz", "-c", "-0", "--block-size=1MiB", "--check=none"],
    &["xz", "-c", "-0", "--block-size=1MiB", "--x86", "--lzma2"],
    &["xz", "-c", "-0"],
    &["zstd", "-c", "-q"],
];

#[test]
fn any_place_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let plain = disk();
    for words in SEEKABLE {
        let Some(()) = require(words[0]) else {
            continue;
        };
        let file = compressed(dir.path(), words);
        let map = open(file).unwrap().unwrap_or_else(|| panic!("{words:?}"));
        assert_eq!(map.size_bytes(), plain.len() as u64, "{words:?}");
        for (offset, len) in [
            (0, 1),
            (1 << 20, 10),
            ((1 << 20) - 3, 2 << 20),
            (5 << 20, 777),
        ] {
            let found = read(&map, offset as u64, len).unwrap();
            assert!(
                found == plain[offset..offset + len],
                "{words:?} at {offset}"
            );
        }
        assert!(read(&map, 0, plain.len()).unwrap() == plain);
        assert!(map.run_at(plain.len() as u64, 1).is_err());
    }
}

/// Compresses pieces of the disk one by one.
fn in_pieces(dir: &Path, words: &[&str]) -> Vec<u8> {
    let (program, words) = words.split_first().unwrap();
    let mut file = Vec::new();
    for piece in disk().chunks(1 << 20) {
        let path = dir.join("piece");
        fs::write(&path, piece).unwrap();
        let output = Command::new(program)
            .args(words)
            .arg(path)
            .output()
            .unwrap();
        assert!(output.status.success());
        file.extend(output.stdout);
    }
    file
}

#[test]
fn streams_one_behind_the_other_are_one_disk() {
    let dir = tempfile::tempdir().unwrap();
    let plain = disk();
    for words in [&["xz", "-c", "-0"][..], &["zstd", "-c", "-q", "-1"]] {
        let Some(()) = require(words[0]) else {
            continue;
        };
        let file = in_pieces(dir.path(), words);
        let map = open(file).unwrap().unwrap();
        assert_eq!(map.unit_count(), 6);
        assert!(read(&map, 0, plain.len()).unwrap() == plain, "{words:?}");
    }
}

/// Makes BGZF as its specification says: gzip members whose extra field has their length.
fn bgzf(plain: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for piece in plain.chunks(60_000).chain([&[][..]]) {
        let mut member = flate2::GzBuilder::new()
            .extra(b"BC\x02\x00\x00\x00".to_vec())
            .read(piece, flate2::Compression::fast());
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        let size = u16::try_from(bytes.len() - 1).unwrap();
        bytes[16..18].copy_from_slice(&size.to_le_bytes());
        file.extend(bytes);
    }
    file
}

#[test]
fn bgzf_is_read_at_any_place() {
    let plain = disk();
    let file = bgzf(&plain);
    let map = open(file.clone()).unwrap().unwrap();
    assert!(read(&map, 0, plain.len()).unwrap() == plain);
    assert_eq!(map.largest_unit_bytes(), 60_000);
    // gzip reads it, too.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.gz");
    fs::write(&path, file).unwrap();
    let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    assert!(output.stdout == plain);
}

#[test]
fn large_units_are_only_read_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("disk.raw");
    let disk = pattern("large", 33 << 20);
    fs::write(&plain, &disk).unwrap();
    for words in [
        &["gzip", "-c", "-1"][..],
        &["bzip2", "-c"],
        &["xz", "-c", "-0"],
        &["zstd", "-c", "-q"],
    ] {
        let Some(()) = require(words[0]) else {
            continue;
        };
        let path = dir.path().join("compressed");
        let to = fs::File::create(&path).unwrap();
        let mut command = Command::new(words[0]);
        let status = command.args(&words[1..]).arg(&plain).stdout(to).status();
        assert!(status.unwrap().success());
        let bytes = fs::read(&path).unwrap();
        let codec = Codec::of(&bytes).unwrap();
        let file: Arc<dyn BlockRead> = Arc::new(File::open(&path).unwrap());
        assert!(
            Compressed::open(Arc::clone(&file), codec)
                .unwrap()
                .is_none()
        );
        let mut all = Vec::new();
        let reader = DeviceReader::new(file, 100_000);
        let mut unpacked = stream(reader, Streams::All).unwrap().unwrap();
        unpacked.read_to_end(&mut all).unwrap();
        assert!(all == disk, "{words:?}");
    }
}

#[test]
fn damage_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let plain = disk();
    for words in SEEKABLE {
        // Without a check, damage is not always found.
        if require(words[0]).is_none() || words.contains(&"--check=none") {
            continue;
        }
        let file = compressed(dir.path(), words);
        let mut cut = file.clone();
        cut.truncate(file.len() - 100);
        if let Ok(map) = open(cut) {
            let error = map.map(|map| read(&map, 0, plain.len()).unwrap_err().kind());
            assert!(
                error.is_none_or(|kind| kind == ErrorKind::Corrupt),
                "{words:?}"
            );
        }
        let mut changed = file.clone();
        changed[file.len() / 2] ^= 1;
        let map = open(changed).unwrap().unwrap();
        let error = read(&map, 0, plain.len()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{words:?}: {error}");
        assert!(error.offset().is_some(), "{words:?}");
    }
}
