//! Structures made by hand with each field wrong. Whole images are tested in `formats/image`, by
//! comparison with QEMU.

use std::sync::Arc;

use diskfs_block::{ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_vhdx::Vhdx;

const MIB: usize = 1 << 20;
const METADATA: usize = MIB;
const BAT: usize = 2 * MIB;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn sum(bytes: &mut [u8]) {
    put(bytes, 4, &[0; 4]);
    let crc = crc32c::crc32c(bytes);
    put(bytes, 4, &crc.to_le_bytes());
}

/// The GUIDs of regions and metadata items, as stored.
const GUIDS: [[u8; 16]; 7] = [
    *b"\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08",
    *b"\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e",
    *b"\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b",
    *b"\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8",
    *b"\x1d\xbf\x41\x81\x6f\xa9\x09\x47\xba\x47\xf2\x33\xa8\xfa\xab\x5f",
    *b"\xc7\x48\xa3\xcd\x5d\x44\x71\x44\x9c\xc9\xe9\x88\x52\x51\xc5\x56",
    *b"\xab\x12\xca\xbe\xe6\xb2\x23\x45\x93\xef\xc3\x09\xe0\x00\xc7\x46",
];

/// A change of the image before its checksums are made: place and bytes.
type Change<'a> = (usize, &'a [u8]);

/// Returns a disk of two blocks of 1 MiB, with these entries.
fn image(entries: [u64; 2], changes: &[Change<'_>]) -> Vec<u8> {
    let mut image = vec![0; 3 * MIB];
    put(&mut image, 0, b"vhdxfile");
    for (n, at) in [64 << 10, 128 << 10].into_iter().enumerate() {
        put(&mut image, at, b"head");
        image[at + 8] = u8::try_from(n).unwrap() + 1;
        image[at + 66] = 1;
    }
    for at in [192 << 10, 256 << 10] {
        put(&mut image, at, b"regi");
        image[at + 8] = 2;
        for (n, offset) in [(0, BAT), (1, METADATA)] {
            let entry = at + 16 + n * 32;
            put(&mut image, entry, &GUIDS[n]);
            put(&mut image, entry + 16, &(offset as u64).to_le_bytes());
            put(
                &mut image,
                entry + 24,
                &u32::try_from(MIB).unwrap().to_le_bytes(),
            );
            image[entry + 28] = 1;
        }
    }
    put(&mut image, METADATA, b"metadata");
    image[METADATA + 10] = 5;
    let size = (2 * MIB as u64).to_le_bytes();
    let parameters = (MIB as u64).to_le_bytes();
    let sector = 512_u32.to_le_bytes();
    let items: [&[u8]; 5] = [&parameters, &size, &sector, &sector, &[1; 16]];
    for (n, item) in items.into_iter().enumerate() {
        let (entry, at) = (METADATA + 32 + n * 32, (64 << 10) + n * 32);
        put(&mut image, entry, &GUIDS[n + 2]);
        put(
            &mut image,
            entry + 16,
            &u32::try_from(at).unwrap().to_le_bytes(),
        );
        image[entry + 20] = u8::try_from(item.len()).unwrap();
        image[entry + 24] = 4;
        put(&mut image, METADATA + at, item);
    }
    for (n, entry) in entries.iter().enumerate() {
        put(&mut image, BAT + n * 8, &entry.to_le_bytes());
    }
    for (at, bytes) in changes {
        put(&mut image, *at, bytes);
    }
    for at in [64 << 10, 128 << 10] {
        sum(&mut image[at..at + 4096]);
    }
    for at in [192 << 10, 256 << 10] {
        sum(&mut image[at..at + (64 << 10)]);
    }
    image
}

fn open(image: Vec<u8>) -> Result<Vhdx> {
    Vhdx::open(Arc::new(Memory::new(image)))
}

fn kind(changes: &[Change<'_>]) -> Option<ErrorKind> {
    open(image([0; 2], changes)).map(|_| ()).err().map(|e| {
        assert!(e.offset().is_some(), "{e}");
        e.kind()
    })
}

#[test]
fn states_of_blocks() {
    let block = 3 * MIB as u64;
    for (entry, storage) in [
        (0, RunStorage::Absent),
        (1, RunStorage::Zero),
        (2, RunStorage::Zero),
        (block | 3, RunStorage::Zero),
        (
            block | 6,
            RunStorage::Stored {
                file: 0,
                offset: block,
            },
        ),
    ] {
        let vhdx = open(image([entry, 0], &[])).unwrap();
        assert_eq!(vhdx.run_at(0, 5).unwrap().storage, storage);
    }
    // Reserved; partially present without a parent; in the header, the metadata and the table.
    let own = [6, MIB as u64 | 6, (2 * MIB as u64) | 6];
    for entry in [4, block | 7].into_iter().chain(own) {
        let vhdx = open(image([0, entry], &[])).unwrap();
        let e = vhdx.run_at(MIB as u64, 5).unwrap_err();
        assert_eq!(
            (e.kind(), e.offset()),
            (ErrorKind::Corrupt, Some(BAT as u64 + 8))
        );
    }
}

#[test]
fn one_damaged_copy_does_not_matter() {
    let mut damaged = image([0; 2], &[]);
    damaged[(128 << 10) + 100] ^= 1;
    damaged[(192 << 10) + 100] ^= 1;
    assert!(open(damaged.clone()).is_ok());
    damaged[(64 << 10) + 100] ^= 1;
    let e = open(damaged.clone()).unwrap_err();
    assert!(e.to_string().contains("both headers"), "{e}");
    damaged = image([0; 2], &[]);
    damaged[(192 << 10) + 100] ^= 1;
    damaged[(256 << 10) + 100] ^= 1;
    let e = open(damaged).unwrap_err();
    assert!(e.to_string().contains("both region tables"), "{e}");
}

#[test]
fn wrong_fields_are_refused() {
    let (header, regions) = (128 << 10, 192 << 10);
    let corrupt: [Change<'_>; 11] = [
        (0, b"x"),
        // Regions: an offset of half a MiB, no length, and the same GUID twice.
        (regions + 16 + 16, &[0, 0, 8]),
        (regions + 16 + 24, &[0; 4]),
        (regions + 16 + 32, &GUIDS[0]),
        (METADATA, b"x"),
        (METADATA + 10, &[0xff, 0xff]),
        // Items: past the region, the length, block size, sector size, size of the disk.
        (METADATA + 32 + 16, &[0xff; 4]),
        (METADATA + 32 + 20, &[7]),
        (METADATA + (64 << 10), &[1]),
        (METADATA + (64 << 10) + 64, &[1]),
        (METADATA + (64 << 10) + 32 + 7, &[1]),
    ];
    for change in corrupt {
        assert_eq!(kind(&[change]), Some(ErrorKind::Corrupt), "{:#x}", change.0);
    }
    let unsupported: [Change<'_>; 3] = [
        (header + 66, &[2]),
        (regions + 16 + 32, &[9]),
        (METADATA + 32 + 128, &[9]),
    ];
    for change in unsupported {
        assert_eq!(
            kind(&[change]),
            Some(ErrorKind::Unsupported),
            "{:#x}",
            change.0
        );
    }
    // A parent without a locator, and a table that is too short for the disk.
    assert_eq!(
        kind(&[(METADATA + (64 << 10) + 4, &[2])]),
        Some(ErrorKind::Corrupt)
    );
    let large = (
        METADATA + (64 << 10) + 32,
        &(60_u64 << 40).to_le_bytes()[..],
    );
    assert_eq!(kind(&[large]), Some(ErrorKind::Corrupt));
    assert_eq!(kind(&[]), None);
    let truncated = image([0; 2], &[])[..2 * MIB].to_vec();
    assert_eq!(open(truncated).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn logs_out_of_bounds_are_refused() {
    let header = 128 << 10;
    let log = |len: u32, at: u64| {
        let (len, at) = (len.to_le_bytes(), at.to_le_bytes());
        kind(&[(header + 48, &[1]), (header + 68, &len), (header + 72, &at)])
    };
    assert_eq!(log(0, 0), Some(ErrorKind::Corrupt));
    assert_eq!(log(4096, u64::MAX), Some(ErrorKind::Corrupt));
    assert_eq!(log(100, 0), Some(ErrorKind::Corrupt));
    assert_eq!(log(u32::MAX, 0), Some(ErrorKind::Unsupported));
    assert_eq!(log(1 << 20, 1 << 20), Some(ErrorKind::Corrupt));
    let version = [(header + 48, &[1][..]), (header + 64, &[1])];
    assert_eq!(kind(&version), Some(ErrorKind::Unsupported));
}
