//! Images made by hand: valid ones, and ones with each field wrong.

use std::sync::Arc;

use diskfs_block::{ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_vhd::{DiskType, Vhd, ends_with_footer};

const TABLE_AT: usize = 1536;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Sets the checksum of a structure.
fn sum(bytes: &mut [u8], field: usize) {
    put(bytes, field, &[0; 4]);
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    put(bytes, field, &(!sum).to_be_bytes());
}

fn footer(kind: u32, creator: [u8; 4], size: u64) -> Vec<u8> {
    let mut footer = vec![0; 512];
    put(&mut footer, 0, b"conectix");
    put(&mut footer, 12, &0x10000_u32.to_be_bytes());
    put(&mut footer, 16, &512_u64.to_be_bytes());
    put(&mut footer, 28, &creator);
    put(&mut footer, 48, &size.to_be_bytes());
    put(&mut footer, 56, &[0, 2, 3, 4]);
    put(&mut footer, 60, &kind.to_be_bytes());
    sum(&mut footer, 64);
    footer
}

/// Returns a dynamic disk of two blocks of 4 KiB, whose bitmaps and data are at these sectors.
fn dynamic(entries: [u32; 2]) -> Vec<u8> {
    let mut image = footer(3, *b"win ", 8192);
    image.resize(16 << 10, 7);
    image[512..TABLE_AT].fill(0);
    let header = &mut image[512..TABLE_AT];
    put(header, 0, b"cxsparse");
    put(header, 16, &(TABLE_AT as u64).to_be_bytes());
    put(header, 24, &0x10000_u32.to_be_bytes());
    put(header, 28, &2_u32.to_be_bytes());
    put(header, 32, &4096_u32.to_be_bytes());
    sum(header, 36);
    put(&mut image, TABLE_AT, &entries[0].to_be_bytes());
    put(&mut image, TABLE_AT + 4, &entries[1].to_be_bytes());
    let footer = footer(3, *b"win ", 8192);
    image.extend(footer);
    image
}

fn open(image: Vec<u8>) -> Result<Vhd> {
    Vhd::open(Arc::new(Memory::new(image)))
}

#[test]
fn a_fixed_disk_has_only_a_footer() {
    let mut image = vec![0; 4096];
    image.extend(footer(2, *b"win ", 4096));
    assert!(ends_with_footer(&Memory::new(image.clone())).unwrap());
    let vhd = open(image.clone()).unwrap();
    assert_eq!((vhd.disk_type(), vhd.size_bytes()), (DiskType::Fixed, 4096));
    let run = vhd.run_at(100, 50).unwrap();
    let offset = 100;
    assert_eq!(run.storage, RunStorage::Stored { file: 0, offset });
    // The disk does not fit into the file.
    assert_eq!(
        open(image[512..].to_vec()).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    image[4096 + 70] ^= 1;
    assert!(!ends_with_footer(&Memory::new(image.clone())).unwrap());
    let e = open(image).unwrap_err();
    assert!(e.to_string().contains("checksum"), "{e}");
    assert!(!ends_with_footer(&Memory::new(vec![0; 100])).unwrap());
    assert!(open(vec![0; 100]).is_err());
}

#[test]
fn the_creator_decides_which_size_counts() {
    let size = |creator: [u8; 4]| {
        let mut image = vec![0; 64 << 10];
        image.extend(footer(2, creator, 5120));
        open(image).unwrap().size_bytes()
    };
    assert_eq!(size(*b"vpc "), 2 * 3 * 4 * 512);
    assert_eq!(size(*b"qemu"), 2 * 3 * 4 * 512);
    for creator in [
        b"qem2", b"win ", b"d2v ", b"tap\0", b"CTXS", b"wa\0\0", b"vbox",
    ] {
        assert_eq!(size(*creator), 5120);
    }
}

#[test]
fn blocks_of_a_dynamic_disk() {
    let vhd = open(dynamic([8, u32::MAX])).unwrap();
    let run = vhd.run_at(10, 1 << 20).unwrap();
    let offset = 8 * 512 + 512 + 10;
    assert_eq!(run.storage, RunStorage::Stored { file: 0, offset });
    assert_eq!(run.len_bytes, 4086);
    assert_eq!(vhd.run_at(4096, 10).unwrap().storage, RunStorage::Absent);
    // Blocks on the footer, and on the table.
    for entry in [0, 1, 3] {
        let e = open(dynamic([entry, 0])).unwrap().run_at(0, 1).unwrap_err();
        assert_eq!(
            (e.kind(), e.offset()),
            (ErrorKind::Corrupt, Some(TABLE_AT as u64))
        );
    }
    // Without the first footer, the one at the end counts.
    let mut damaged = dynamic([8, 8]);
    damaged[..512].fill(0);
    assert_eq!(open(damaged).unwrap().size_bytes(), 8192);
}

#[test]
fn wrong_fields_of_the_header_are_refused() {
    let changed = |at: usize, value: &[u8], kind: ErrorKind| {
        let mut image = dynamic([8, 8]);
        let header = &mut image[512..TABLE_AT];
        put(header, at, value);
        sum(header, 36);
        let e = open(image).unwrap_err();
        assert_eq!(e.kind(), kind, "{at}: {e}");
        assert!(e.offset().is_some(), "{e}");
    };
    changed(0, b"x", ErrorKind::Corrupt);
    changed(16, &u64::MAX.to_be_bytes(), ErrorKind::Corrupt);
    changed(16, &16_890_u64.to_be_bytes(), ErrorKind::Corrupt);
    changed(28, &1_u32.to_be_bytes(), ErrorKind::Corrupt);
    changed(24, &2_u32.to_be_bytes(), ErrorKind::Unsupported);
    changed(32, &0_u32.to_be_bytes(), ErrorKind::Unsupported);
    changed(32, &4097_u32.to_be_bytes(), ErrorKind::Unsupported);
    changed(32, &(1_u32 << 31).to_be_bytes(), ErrorKind::Unsupported);
    let mut unsummed = dynamic([8, 8]);
    unsummed[600] ^= 1;
    assert!(open(unsummed).is_err());
}

#[test]
fn a_huge_disk_needs_a_huge_table() {
    let mut image = dynamic([8, 8]);
    for at in [0, image.len() - 512] {
        let footer = footer(3, *b"win ", 1 << 63);
        put(&mut image, at, &footer);
    }
    let e = open(image).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
}

#[test]
fn names_of_parents_are_bounded() {
    let child = |len: u32, at: u64| {
        let mut image = dynamic([8, 8]);
        let header = &mut image[512..TABLE_AT];
        put(header, 576, b"W2ru");
        put(header, 584, &len.to_be_bytes());
        put(header, 592, &at.to_be_bytes());
        sum(header, 36);
        let end = image.len() - 512;
        for at in [0, end] {
            let footer = footer(4, *b"win ", 8192);
            put(&mut image, at, &footer);
        }
        open(image).unwrap_err().kind()
    };
    assert_eq!(child(u32::MAX, 2048), ErrorKind::Unsupported);
    assert_eq!(child(100, u64::MAX), ErrorKind::Corrupt);
    assert_eq!(child(0, 2048), ErrorKind::Corrupt);
}
