//! Images made by hand, because no program here makes them.

use std::io::Write;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use diskfs_block::{Error, ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_dmg::{Dmg, ends_with_trailer};

/// A chunk: its type, first sector, number of sectors, and data as stored.
type Chunk = (u32, u64, u64, Vec<u8>);

/// Returns an image with a table of these chunks, from sector `first` of the disk on.
fn image(first: u64, chunks: &[Chunk]) -> Vec<u8> {
    let mut image = vec![0xaa; 100];
    let mut table = vec![0; 204];
    table[..4].copy_from_slice(b"mish");
    table[8..16].copy_from_slice(&first.to_be_bytes());
    table[200..204].copy_from_slice(&u32::try_from(chunks.len()).unwrap().to_be_bytes());
    for (kind, sector, count, data) in chunks {
        table.extend(kind.to_be_bytes());
        table.extend([0; 4]);
        for value in [*sector, *count, image.len() as u64 - 100, data.len() as u64] {
            table.extend(value.to_be_bytes());
        }
        image.extend(data);
    }
    let table = Base64::encode_string(&table);
    let list = format!(
        "<?xml version=\"1.0\"?>\n<plist><dict><key>resource-fork</key><dict><key>blkx</key>\
         <array><dict><key>Data</key><data>\n{table}\n</data></dict></array></dict></dict></plist>"
    );
    with_list(image, &list)
}

fn with_list(mut image: Vec<u8>, list: &str) -> Vec<u8> {
    let at = image.len() as u64;
    image.extend(list.as_bytes());
    let mut trailer = vec![0; 512];
    trailer[..8].copy_from_slice(b"koly\0\0\0\x04");
    for (field, value) in [(24, 100), (216, at), (224, list.len() as u64)] {
        trailer[field..field + 8].copy_from_slice(&value.to_be_bytes());
    }
    image.extend(trailer);
    image
}

fn open(image: Vec<u8>) -> Result<Dmg> {
    Dmg::open(Arc::new(Memory::new(image)))
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(3);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn kind(image: Vec<u8>) -> ErrorKind {
    open(image).map(|_| ()).unwrap_err().kind()
}

#[test]
fn chunks_of_all_kinds() {
    let bytes: Vec<u8> = (0..=255).cycle().take(2048).collect();
    let image = image(
        10,
        &[
            (0x8000_0005, 4, 4, zlib(&bytes)),
            (1, 0, 2, vec![5; 1024]),
            (0x7fff_fffe, 0, 0, Vec::new()),
            (0x8000_0008, 8, 4, xz(&bytes)),
            (0x8000_0006, 12, 4, bzip2(&bytes)),
            (2, 2, 1, Vec::new()),
            (0xffff_ffff, 20, 0, Vec::new()),
        ],
    );
    assert!(ends_with_trailer(&Memory::new(image.clone())).unwrap());
    let dmg = open(image).unwrap();
    assert_eq!(dmg.size_bytes(), 26 * 512);
    let storage = |sector: u64| dmg.run_at(sector * 512 + 1, 1 << 30).unwrap();
    assert_eq!(storage(0).storage, RunStorage::Absent);
    assert_eq!(storage(0).len_bytes, 5119);
    assert!(matches!(
        storage(10).storage,
        RunStorage::Stored { file: 0, .. }
    ));
    assert_eq!(storage(12).storage, RunStorage::Zero);
    assert_eq!(
        (storage(13).storage, storage(13).len_bytes),
        (RunStorage::Absent, 511)
    );
    for sector in [14, 18, 22] {
        let RunStorage::Compressed { unit, skip_bytes } = storage(sector).storage else {
            panic!("sector {sector} is compressed");
        };
        assert_eq!(skip_bytes, 1);
        assert_eq!(dmg.decompress(unit).unwrap()[..], bytes);
    }
}

#[test]
fn other_compressions_are_refused_by_name() {
    for (code, name) in [(4, "ADC"), (7, "LZFSE"), (99, "0x80000063")] {
        let e = open(image(0, &[(0x8000_0000 | code, 0, 1, vec![0; 9])])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains(name), "{e}");
    }
}

#[test]
fn wrong_tables_are_corrupt() {
    let overlap = image(0, &[(0, 0, 4, Vec::new()), (0, 3, 4, Vec::new())]);
    let short = image(0, &[(1, 0, 4, vec![0; 512])]);
    let past_end = image(u64::MAX, &[(0, 1, 1, Vec::new())]);
    let huge = image(0, &[(0, 1 << 60, 1 << 62, Vec::new())]);
    let mut truncated = image(0, &[]);
    truncated.drain(..50);
    for image in [
        overlap,
        short,
        past_end,
        huge,
        truncated,
        vec![0; 600],
        vec![0; 3],
    ] {
        assert_eq!(kind(image), ErrorKind::Corrupt);
    }
    let large = image(0, &[(0x8000_0005, 0, 1 << 20, Vec::new())]);
    assert_eq!(kind(large), ErrorKind::Unsupported);
    for list in [
        "<a",
        "<a></b>",
        "<key>blkx</key><array><key>Data</key><data>!</data></array>",
    ] {
        assert_eq!(
            kind(with_list(vec![0; 100], list)),
            ErrorKind::Corrupt,
            "{list}"
        );
    }
    let not_utf8 = with_list(vec![0; 100], "<a>").into_iter();
    let not_utf8 = not_utf8.map(|byte| if byte == b'<' { 0xff } else { byte });
    assert_eq!(kind(not_utf8.collect()), ErrorKind::Corrupt);
}

#[test]
fn wrong_fields_of_the_trailer() {
    let changed = |field: usize, value: u64| -> Error {
        let mut image = image(0, &[(0, 0, 1, Vec::new())]);
        let at = image.len() - 512 + field;
        image[at..at + 8].copy_from_slice(&value.to_be_bytes());
        open(image).map(|_| ()).unwrap_err()
    };
    assert_eq!(changed(0, 0).kind(), ErrorKind::Corrupt);
    assert_eq!(changed(216, u64::MAX).kind(), ErrorKind::Corrupt);
    for (field, value) in [
        (0, u64::from_be_bytes(*b"koly\0\0\0\x05")),
        (56, 2),
        (224, 0),
    ] {
        assert_eq!(
            changed(field, value).kind(),
            ErrorKind::Unsupported,
            "{field}"
        );
    }
    assert_eq!(changed(224, 1 << 40).kind(), ErrorKind::Unsupported);
}

#[test]
fn damaged_data_is_corrupt() {
    let mut data = zlib(&[7; 1024]);
    // The checksum.
    *data.last_mut().unwrap() ^= 0x55;
    for (kind, data) in [
        (0x8000_0005, data),
        (0x8000_0005, zlib(&[7; 100])),
        (0x8000_0008, vec![0; 50]),
    ] {
        let dmg = open(image(0, &[(kind, 0, 2, data)])).unwrap();
        let RunStorage::Compressed { unit, .. } = dmg.run_at(0, 1).unwrap().storage else {
            panic!("the chunk is compressed");
        };
        let e = dmg.decompress(unit).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(100)));
    }
}
