//! Images made by hand: valid ones, and ones with each field wrong.

use std::sync::Arc;

use diskfs_block::{ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_qcow::Qcow;

/// Returns an image with clusters of 512 bytes: an L1 table at 512, an L2 table at 1024 with these
/// entries, and data from 1536 on.
fn image(entries: &[u64]) -> Vec<u8> {
    let mut image = vec![0; 4096];
    image[..8].copy_from_slice(b"QFI\xfb\0\0\0\x01");
    image[24..32].copy_from_slice(&(64_u64 * 512).to_be_bytes());
    image[32..34].copy_from_slice(&[9, 6]);
    image[40..48].copy_from_slice(&512_u64.to_be_bytes());
    image[512..520].copy_from_slice(&1024_u64.to_be_bytes());
    for (n, entry) in entries.iter().enumerate() {
        image[1024 + n * 8..][..8].copy_from_slice(&entry.to_be_bytes());
    }
    image
}

fn open(image: Vec<u8>) -> Result<Qcow> {
    Qcow::open(Arc::new(Memory::new(image)))
}

#[test]
fn clusters_are_stored_compressed_or_absent() {
    // A stored block of deflate: 00 and the length, then zeroes; and one that is cut off.
    let compressed = (1 << 63) | (511 << 54) | 0x800;
    let past_end = (1 << 63) | (511 << 54) | 0xfa0;
    let mut bytes = image(&[1536, 0, compressed, past_end, 0x200]);
    bytes[2048..2053].copy_from_slice(&[1, 0xff, 0x01, 0, 0xfe]);
    let qcow = open(bytes).unwrap();
    let storage = |cluster: u64| qcow.run_at(cluster * 512 + 5, 10).map(|run| run.storage);
    let offset = 1541;
    assert_eq!(storage(0).unwrap(), RunStorage::Stored { file: 0, offset });
    assert_eq!(storage(1).unwrap(), RunStorage::Absent);
    for cluster in [2, 3] {
        let RunStorage::Compressed { unit, skip_bytes } = storage(cluster).unwrap() else {
            panic!("cluster {cluster} is compressed");
        };
        assert_eq!((unit.unpacked_bytes, skip_bytes), (512, 5));
        // Only 511 bytes; past the end of the file.
        assert_eq!(
            qcow.decompress(unit).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
    // The L1 table.
    assert_eq!(storage(4).unwrap_err().offset(), Some(1024 + 32));
}

#[test]
fn wrong_fields_are_refused() {
    let changed = |at: usize, value: &[u8]| {
        let mut image = image(&[]);
        image[at..at + value.len()].copy_from_slice(value);
        open(image).map(|_| ()).unwrap_err().kind()
    };
    for (at, value) in [
        (7, &[2][..]),
        (32, &[8]),
        (32, &[17]),
        (33, &[5]),
        (33, &[14]),
        (24, &[0x80]),
        (40, &[0xff; 8]),
    ] {
        assert_eq!(changed(at, value), ErrorKind::Corrupt, "{at}");
    }
    assert_eq!(changed(39, &[1]), ErrorKind::Unsupported);
    assert_eq!(
        changed(8, &[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 8, 0]),
        ErrorKind::Corrupt
    );
    assert_eq!(
        changed(8, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ErrorKind::Corrupt
    );
    assert!(open(vec![0; 47]).is_err());
}
