//! Images made by hand: valid ones, and ones with each field wrong.

use std::sync::Arc;

use diskfs_block::{ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_parallels::Parallels;

/// Returns an image with clusters of 8 sectors and these entries.
fn image(magic: &[u8; 16], entries: &[u32]) -> Vec<u8> {
    let mut image = vec![0; 4096 * 4];
    image[..16].copy_from_slice(magic);
    let count = u32::try_from(entries.len()).unwrap();
    for (at, value) in [(16, 2), (28, 8), (32, count), (36, count * 8)] {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    for (n, entry) in entries.iter().enumerate() {
        image[64 + n * 4..68 + n * 4].copy_from_slice(&entry.to_le_bytes());
    }
    image
}

fn open(image: Vec<u8>) -> Result<Parallels> {
    Parallels::open(Arc::new(Memory::new(image)))
}

#[test]
fn both_units_of_offsets() {
    for (magic, entry) in [(b"WithoutFreeSpace", 16), (b"WithouFreSpacExt", 2)] {
        let mut bytes = image(magic, &[entry, 0, 0]);
        // Only the old format ignores these.
        if entry == 16 {
            bytes[40..44].fill(0xff);
        }
        let disk = open(bytes).unwrap();
        assert_eq!(
            (disk.size_bytes(), disk.cluster_size_bytes()),
            (3 * 4096, 4096)
        );
        let offset = 8192 + 7;
        let run = disk.run_at(7, 10).unwrap();
        assert_eq!(run.storage, RunStorage::Stored { file: 0, offset });
        assert_eq!(disk.run_at(4096, 10).unwrap().storage, RunStorage::Absent);
    }
}

#[test]
fn wrong_fields_are_refused() {
    let changed = |at: usize, value: u32| {
        let mut image = image(b"WithouFreSpacExt", &[1, 2]);
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
        open(image).map(|_| ()).unwrap_err().kind()
    };
    for (at, value) in [
        (0, 0),
        (28, 0),
        (28, u32::MAX),
        (32, u32::MAX),
        (36, 1000),
        (40, 1),
    ] {
        assert_eq!(changed(at, value), ErrorKind::Corrupt, "{at}");
    }
    assert_eq!(changed(40, u32::MAX), ErrorKind::Corrupt);
    assert_eq!(changed(16, 3), ErrorKind::Unsupported);
    assert!(open(vec![0; 10]).is_err());
    // A cluster in the table.
    let disk = open(image(b"WithoutFreeSpace", &[0; 200])).unwrap();
    assert!(disk.run_at(0, 1).is_ok());
    let disk = open(image(b"WithoutFreeSpace", &[1; 200])).unwrap();
    assert_eq!(disk.run_at(0, 1).unwrap_err().kind(), ErrorKind::Corrupt);
    let mut in_use = image(b"WithoutFreeSpace", &[0]);
    in_use[44..48].copy_from_slice(&0x746f_6e59_u32.to_le_bytes());
    assert!(open(in_use).unwrap().is_in_use());
}
