//! Power cuts at every moment while the properties of an image are changed.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Faulty, Memory};

use super::amend::{HeaderChange, amend};
use super::header::Header;
use crate::create::{Compat, NewImage, NewQcow2, create};
use crate::{CreateOptions, Format, Image, OpenOptions, WritableImage};

const SIZE_BYTES: u64 = 3 << 20;
/// The largest length of the file.
const FILE_BYTES: usize = 8 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

/// Creates an image with some data, and returns it with the contents of its disk.
fn image(new: NewQcow2) -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(SIZE_BYTES))).unwrap();
    let image = WritableImage::open(&path, &options()).unwrap();
    image.device().write_at(100_000, &vec![5; 700_000]).unwrap();
    image.device().write_zeroes(0x3_0000, 0x2_0000).unwrap();
    image.close().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let disk = disk(&Arc::new(Memory::new(bytes.as_slice())));
    (bytes, disk)
}

fn disk(device: &Arc<Memory>) -> Vec<u8> {
    let reading: Arc<dyn BlockRead> = device.clone();
    let image = Image::from_device(reading, &options()).unwrap();
    let mut bytes = vec![0; usize::try_from(SIZE_BYTES).unwrap()];
    image.device().read_at(0, &mut bytes).unwrap();
    let report = image.check().unwrap().unwrap();
    assert_eq!(report.corruptions, 0, "{report:?}");
    bytes
}

fn properties(device: &dyn BlockRead) -> (u32, bool, u64) {
    let header = Header::read(device).unwrap();
    let lazy = header.compatible.lazy_refcounts();
    (header.version, lazy, header.refcount_bits())
}

/// Makes a change with a power cut at each moment.
fn cut(bytes: &mut Vec<u8>, expected: &[u8], change: HeaderChange) {
    let mut start = bytes.clone();
    start.resize(FILE_BYTES, 0);
    let faulty = Faulty::new(Arc::new(Memory::new(bytes.as_slice())), []);
    let before = properties(&faulty);
    let has_leaks = amend(&faulty, change).unwrap();
    let after = properties(&faulty);
    assert_eq!(after.0, change.version.unwrap_or(before.0));
    assert_eq!(after.1, change.lazy_refcounts.unwrap_or(before.1));
    assert_eq!(after.2, change.refcount_bits.map_or(before.2, u64::from));
    for state in faulty.log().states(1) {
        let left = Arc::new(Memory::new(start.as_slice()));
        state.replay(left.as_ref()).unwrap();
        let found = properties(left.as_ref());
        assert!(found == before || found == after, "{change:?}: {state}");
        assert!(disk(&left) == expected, "{change:?}: {state}");
        let writing: Arc<dyn BlockWrite> = left.clone();
        let image = WritableImage::from_device(writing, &options()).unwrap();
        image.device().write_at(0, &vec![6; 50_000]).unwrap();
        image.close().unwrap();
        disk(&left);
    }
    bytes.resize(usize::try_from(faulty.size_bytes()).unwrap(), 0);
    faulty.read_at(0, bytes).unwrap();
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes.as_slice()));
    let image = Image::from_device(device, &options()).unwrap();
    let report = image.check().unwrap().unwrap();
    assert!(report.corruptions == 0, "{change:?}: {report:?}");
    assert_eq!(report.leaked_clusters > 0, has_leaks, "{change:?}");
}

#[test]
fn a_power_cut_leaves_the_old_properties_or_the_new_ones() {
    for cluster_size_bytes in [512, 4096, 65536] {
        let (mut bytes, disk) = image(NewQcow2 {
            cluster_size_bytes,
            compat: Compat::V0_10,
            ..NewQcow2::default()
        });
        let change = |version, lazy_refcounts, refcount_bits| HeaderChange {
            version,
            lazy_refcounts,
            refcount_bits,
        };
        for change in [
            change(Some(3), None, None),
            change(None, Some(true), Some(64)),
            change(None, None, Some(1)),
            change(Some(3), Some(false), Some(16)),
            change(Some(2), None, None),
            change(Some(3), Some(true), Some(64)),
            change(Some(2), Some(false), Some(16)),
        ] {
            cut(&mut bytes, &disk, change);
        }
    }
    let (mut bytes, disk) = image(NewQcow2 {
        compat: Compat::V0_10,
        ..NewQcow2::default()
    });
    let all = HeaderChange {
        version: Some(3),
        lazy_refcounts: Some(true),
        refcount_bits: Some(8),
    };
    cut(&mut bytes, &disk, all);
    let (mut bytes, disk) = image(NewQcow2::default());
    let old = HeaderChange {
        version: Some(2),
        ..HeaderChange::default()
    };
    cut(&mut bytes, &disk, old);
}

#[test]
fn impossible_changes_are_refused() {
    let lazy = HeaderChange {
        lazy_refcounts: Some(true),
        ..HeaderChange::default()
    };
    let bits = |bits| HeaderChange {
        refcount_bits: Some(bits),
        ..HeaderChange::default()
    };
    for (compat, change, reason) in [
        (Compat::V0_10, lazy, "version 2 has no"),
        (Compat::V0_10, bits(8), "version 2 has no"),
        (Compat::V1_1, bits(3), "invalid refcount_bits"),
        (Compat::V1_1, bits(128), "invalid refcount_bits"),
        (Compat::V1_1, bits(0), "invalid refcount_bits"),
    ] {
        let (bytes, _) = image(NewQcow2 {
            compat,
            ..NewQcow2::default()
        });
        let device = Memory::new(bytes.as_slice());
        let error = amend(&device, change).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(device.to_vec() == bytes);
    }
}
