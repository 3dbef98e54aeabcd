//! Tests with damaged filesystems: every call returns, without a panic or an endless loop.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::{BlockWrite, Memory};
use diskfs_exfat::{Exfat, WritableExfat, WriteOptions};
use diskfs_fixtures::image;
use diskfs_vfs::{ErrorKind, Follow, FsRead, InodeNumber, resolve};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(image(name).path()).unwrap()
}

fn try_all(bytes: Vec<u8>) {
    common::try_all(
        |device| Ok(Box::new(Exfat::open(device)?)),
        |device| {
            let device = WritableExfat::open(device, &WriteOptions::default());
            Ok(Box::new(device?))
        },
        bytes,
    );
}

/// Changes bytes of a file's second entry, and corrects the checksum.
fn patch(bytes: &mut [u8], file: InodeNumber, offset: usize, value: &[u8]) {
    let at = usize::try_from(file.0 * 32).unwrap();
    bytes[at + 32 + offset..][..value.len()].copy_from_slice(value);
    let count = usize::from(bytes[at + 1]) + 1;
    let counted = bytes[at..at + count * 32].iter().enumerate();
    let sum = counted
        .filter(|(nth, _)| ![2, 3].contains(nth))
        .fold(0_u16, |sum, (_, byte)| {
            sum.rotate_right(1).wrapping_add(u16::from(*byte))
        });
    bytes[at + 2..at + 4].copy_from_slice(&sum.to_le_bytes());
}

const FLAGS: usize = 1;
const VALID: usize = 8;
const FIRST: usize = 20;
const SIZE: usize = 24;

fn open(bytes: &[u8]) -> Exfat {
    Exfat::open(Arc::new(Memory::new(bytes.to_vec()))).unwrap()
}

#[test]
fn a_file_that_is_not_where_it_says_is_corrupt() {
    let bytes = bytes("exfat.img");
    let file = resolve(&open(&bytes), b"Sizes/size-140000", Follow::All).unwrap();
    let cases: [&[(usize, &[u8])]; 8] = [
        &[(FIRST, &[0; 4])],
        &[(FIRST, &[1, 0, 0, 0])],
        &[(FIRST, &[0xff; 4])],
        // The file starts in the last cluster of 1536, so the others would be outside of the
        // filesystem.
        &[(FIRST, &1537_u32.to_le_bytes())],
        &[(SIZE, &[0xff; 8])],
        &[(SIZE, &[0, 0, 0, 0, 1, 0, 0, 0])],
        &[(VALID, &[0xff; 8])],
        // A chain that is not in the table.
        &[(FLAGS, &[1])],
    ];
    for case in cases {
        let mut bytes = bytes.clone();
        for (offset, value) in case {
            patch(&mut bytes, file, *offset, value);
        }
        let e = open(&bytes)
            .read_at(file, 0, &mut vec![0; 140_000])
            .unwrap_err();
        assert_eq!(
            (e.kind(), e.inode()),
            (ErrorKind::Corrupt, Some(file)),
            "{case:?}: {e}"
        );
        try_all(bytes);
    }
    let mut bytes = bytes.clone();
    bytes[usize::try_from(file.0 * 32).unwrap() + 2] ^= 1;
    let e = open(&bytes).metadata(file).unwrap_err();
    assert!(e.to_string().contains("checksum"), "{e}");
    try_all(bytes);
}

#[test]
fn a_chain_that_loops_is_corrupt() {
    let bytes = bytes("exfat-cluster-512.img");
    let file = resolve(&open(&bytes), b"pieces-one/FRAGMENT", Follow::All).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    let table = word(80) * 512;
    let first = word(usize::try_from(file.0 * 32).unwrap() + 32 + FIRST);
    let second = word(usize::try_from(table + first * 4).unwrap());
    for next in [first, second, 0, 1, 0xffff_fff7, 0xffff_ffff, 100_000] {
        let device = Arc::new(Memory::new(bytes.clone()));
        let next = u32::try_from(next).unwrap();
        device
            .write_at(table + second * 4, &next.to_le_bytes())
            .unwrap();
        let fs = Exfat::open(device.clone()).unwrap();
        let e = fs.read_at(file, 0, &mut vec![0; 40_000]).unwrap_err();
        assert_eq!(
            (e.kind(), e.inode()),
            (ErrorKind::Corrupt, Some(file)),
            "{next:#x}: {e}"
        );
        try_all(device.to_vec());
    }
}

#[test]
fn a_directory_that_holds_itself_is_walked_to_an_end() {
    let bytes = bytes("exfat.img");
    let fs = open(&bytes);
    let (a, b) = (
        resolve(&fs, b"a", Follow::All).unwrap(),
        resolve(&fs, b"a/b", Follow::All).unwrap(),
    );
    let of_a = usize::try_from(a.0 * 32).unwrap() + 32 + FIRST;
    let first: [u8; 4] = bytes[of_a..of_a + 4].try_into().unwrap();
    let root: [u8; 4] = bytes[96..100].try_into().unwrap();
    for first in [first, root] {
        let mut bytes = bytes.clone();
        patch(&mut bytes, b, FIRST, &first);
        try_all(bytes);
    }
}

#[test]
fn what_can_only_be_read_is_not_written() {
    let refused = |offset: u64, value: &[u8]| {
        let device = Arc::new(Memory::new(bytes("exfat.img")));
        device.write_at(offset, value).unwrap();
        let before = device.to_vec();
        assert!(Exfat::open(device.clone()).is_ok());
        let e = WritableExfat::open(device.clone(), &WriteOptions::default()).unwrap_err();
        assert_eq!(
            (e.kind(), device.to_vec() == before),
            (ErrorKind::Corrupt, true)
        );
    };
    refused(400, b"damage to the main boot region");
    let image = bytes("exfat.img");
    let table = [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0];
    let at = image
        .windows(12)
        .position(|window| window == table)
        .unwrap();
    refused(at as u64 + 300, b"damage to the up-case table");
}
