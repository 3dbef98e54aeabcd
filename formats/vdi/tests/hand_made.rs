//! Images made by hand: valid ones, and ones with each field wrong.

use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, ImageMap, MappedRun, Memory, Result, RunStorage};
use diskfs_vdi::{DiskIds, ImageType, Vdi};

const BLOCK: usize = 4096;

/// Returns an image with blocks of 4 KiB and these entries in its block map.
fn image(entries: &[u32]) -> Vec<u8> {
    let mut image = vec![0; 1024];
    let mut put = |at: usize, value: u32| image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0x40, 0xbeda_107f);
    put(0x44, 0x0001_0001);
    put(0x48, 0x190);
    put(0x4c, 1);
    put(0x154, 512);
    put(0x158, 1024);
    put(0x168, 512);
    let count = u32::try_from(entries.len()).unwrap();
    put(0x170, count * 4096);
    put(0x178, 4096);
    put(0x180, count);
    for (n, entry) in entries.iter().enumerate() {
        put(512 + n * 4, *entry);
    }
    image.resize(1024 + entries.len() * BLOCK, 7);
    image
}

fn open(image: Vec<u8>) -> Result<Vdi> {
    Vdi::open(Arc::new(Memory::new(image)))
}

fn changed(at: usize, value: u32) -> Error {
    let mut image = image(&[0, 1]);
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    open(image).unwrap_err()
}

#[test]
fn blocks_are_stored_zero_or_absent() {
    let vdi = open(image(&[1, u32::MAX, 0xffff_fffe, 0, 4])).unwrap();
    assert_eq!(vdi.image_type(), ImageType::Dynamic);
    assert_eq!((vdi.size_bytes(), vdi.block_size_bytes()), (5 * 4096, 4096));
    let storage = |block: u64| {
        vdi.run_at(block * 4096 + 10, 1 << 20)
            .map(|run| run.storage)
    };
    let stored = |offset| RunStorage::Stored { file: 0, offset };
    assert_eq!(storage(0).unwrap(), stored(1024 + 4096 + 10));
    assert_eq!(storage(1).unwrap(), RunStorage::Absent);
    assert_eq!(storage(2).unwrap(), RunStorage::Zero);
    assert_eq!(storage(3).unwrap(), stored(1024 + 10));
    let run = MappedRun {
        len_bytes: 20,
        storage: stored(1024),
    };
    assert_eq!(vdi.run_at(3 * 4096, 20).unwrap(), run);
    let outside = open(image(&[2, 1])).unwrap();
    let e = outside.run_at(0, 1).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(512)));
}

#[test]
fn wrong_fields_are_refused() {
    for (at, value) in [
        (0x40, 0),
        (0x154, 100),
        (0x154, u32::MAX),
        (0x158, 516),
        (0x174, u32::MAX),
        (0x170, 0x2001),
    ] {
        let e = changed(at, value);
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{at:#x}: {e}");
        assert!(e.offset().is_some());
    }
    for (at, value) in [
        (0x44, 0x0002_0000),
        (0x4c, 9),
        (0x168, 4096),
        (0x178, 4097),
        (0x178, 0),
        (0x178, 1 << 31),
        (0x17c, 512),
        (0x180, u32::MAX),
    ] {
        let e = changed(at, value);
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{at:#x}: {e}");
    }
    // The map is past the end of the file.
    let e = open(image(&[0; 100])[..700].to_vec()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(open(vec![0; 511]).is_err());
}

/// The bytes of the UUID 01020304-0506-0708-090a-0b0c0d0e0f10.
const UUID: [u8; 16] = [
    0x04, 0x03, 0x02, 0x01, 0x06, 0x05, 0x08, 0x07, 9, 10, 11, 12, 13, 14, 15, 16,
];

#[test]
fn a_differencing_image_has_the_identifiers_of_its_parent() {
    let mut child = image(&[u32::MAX, 0, 0xffff_fffe]);
    child[0x4c] = 4;
    child[0x188..0x198].fill(1);
    child[0x198..0x1a8].fill(2);
    child[0x1a8..0x1b8].copy_from_slice(&UUID);
    child[0x1b8..0x1c8].fill(4);
    let ids = DiskIds::read(&Memory::new(child.clone())).unwrap().unwrap();
    assert_eq!(ids.to_bytes(), child[0x188..0x1a8]);
    let vdi = open(child.clone()).unwrap();
    assert_eq!(vdi.image_type(), ImageType::Differencing);
    let parent = vdi.parent().unwrap();
    assert_eq!(
        parent.id.to_string(),
        "01020304-0506-0708-090a-0b0c0d0e0f10"
    );
    assert_eq!(parent.to_bytes(), child[0x1a8..0x1c8]);
    assert_eq!(DiskIds::from_bytes(&parent.to_bytes()), Some(parent));
    assert_eq!(DiskIds::from_bytes(&UUID), None);
    let storage = |block: u64| vdi.run_at(block * 4096, 1).unwrap().storage;
    assert_eq!(
        (storage(0), storage(2)),
        (RunStorage::Absent, RunStorage::Zero)
    );

    child[0x1a8..0x1b8].fill(0);
    let e = open(child).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(0x1a8)));
    assert!(open(image(&[0])).unwrap().parent().is_none());
}

/// An undo image, and an image of another type that has a parent.
#[test]
fn other_parents_are_refused_with_their_uuid() {
    for kind in [1, 2, 3] {
        let mut child = image(&[u32::MAX]);
        child[0x4c] = kind;
        child[0x1a8..0x1b8].copy_from_slice(&UUID);
        let e = open(child).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        let uuid = "01020304-0506-0708-090a-0b0c0d0e0f10";
        assert!(e.to_string().contains(uuid), "{e}");
    }
}

#[test]
fn other_files_have_no_identifiers() {
    for bytes in [
        Vec::new(),
        vec![0; 511],
        vec![0; 512],
        image(&[0])[1..].to_vec(),
    ] {
        assert_eq!(DiskIds::read(&Memory::new(bytes)).unwrap(), None);
    }
}
