//! Images made by hand: valid ones, and ones with each field wrong.

use std::sync::Arc;

use diskfs_block::{ErrorKind, ImageMap, Memory, Result, RunStorage};
use diskfs_qed::Qed;

const CLUSTER: usize = 4096;

/// Returns an image with an L1 table in cluster 1, an L2 table in cluster 2 with these entries, and
/// a data cluster.
fn image(entries: &[u64]) -> Vec<u8> {
    let mut image = vec![0; 4 * CLUSTER];
    image[..4].copy_from_slice(b"QED\0");
    for (at, value) in [(4, 4096_u32), (8, 1), (12, 1)] {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in [(40, 4096_u64), (48, 5 * 4096), (4096, 2 * 4096)] {
        image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for (n, entry) in entries.iter().enumerate() {
        image[2 * CLUSTER + n * 8..][..8].copy_from_slice(&entry.to_le_bytes());
    }
    image
}

fn open(image: Vec<u8>) -> Result<Qed> {
    Qed::open(Arc::new(Memory::new(image)))
}

#[test]
fn clusters_are_stored_zero_or_absent() {
    let qed = open(image(&[3 * 4096, 1, 0, 4097, 4096])).unwrap();
    let storage = |cluster: u64| qed.run_at(cluster * 4096 + 5, 10).map(|run| run.storage);
    let offset = 3 * 4096 + 5;
    assert_eq!(storage(0).unwrap(), RunStorage::Stored { file: 0, offset });
    assert_eq!(storage(1).unwrap(), RunStorage::Zero);
    assert_eq!(storage(2).unwrap(), RunStorage::Absent);
    let mut empty = image(&[]);
    empty[4096..4104].fill(0);
    let run = open(empty).unwrap().run_at(5, u64::MAX).unwrap();
    assert_eq!(
        (run.storage, run.len_bytes),
        (RunStorage::Absent, 512 * 4096 - 5)
    );
    // The middle of a cluster, and the L1 table.
    for (cluster, place) in [(3, 8192 + 24), (4, 8192 + 32)] {
        let e = storage(cluster).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(place)));
    }
}

#[test]
fn wrong_fields_are_refused() {
    let changed = |at: usize, value: &[u8]| {
        let mut image = image(&[]);
        image[at..at + value.len()].copy_from_slice(value);
        open(image).map(|_| ()).unwrap_err().kind()
    };
    for (at, value) in [(0, 1_u32), (4, 512), (4, 5000), (8, 0), (8, 32), (40, 17)] {
        assert_eq!(
            changed(at, &value.to_le_bytes()),
            ErrorKind::Corrupt,
            "{at}"
        );
    }
    assert_eq!(
        changed(40, &(1_u64 << 60).to_le_bytes()),
        ErrorKind::Corrupt
    );
    assert_eq!(
        changed(48, &(1_u64 << 63).to_le_bytes()),
        ErrorKind::Corrupt
    );
    assert_eq!(changed(16, &8_u64.to_le_bytes()), ErrorKind::Unsupported);
    // A backing file with a name past the end, and one with a long name.
    let named = |at: u32, len: u32| {
        let mut image = image(&[]);
        image[16] = 1;
        image[56..60].copy_from_slice(&at.to_le_bytes());
        image[60..64].copy_from_slice(&len.to_le_bytes());
        open(image)
    };
    assert_eq!(named(u32::MAX, 10).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(named(64, 5000).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(!named(64, 4).unwrap().backing().unwrap().is_raw);
    assert!(open(vec![0; 63]).is_err());
    // A table that points at itself has only entries that point into the L1 table.
    let mut own = image(&[]);
    own[4096..4104].copy_from_slice(&4096_u64.to_le_bytes());
    assert!(open(own).unwrap().run_at(0, 1).is_err());
}
