//! Tests without QEMU: the arithmetic, and what is refused.

use std::fs;
use std::path::Path;

use diskfs_block::ErrorKind;

use super::layout::{Allocated, Layout};
use super::*;
use crate::qcow2::units::{Geometry, L2Layout};
use crate::{Image, OpenOptions};

fn qcow2(change: impl FnOnce(&mut NewQcow2)) -> NewImage {
    let mut image = NewQcow2::default();
    change(&mut image);
    NewImage::Qcow2(Box::new(image))
}

fn refused(path: &Path, options: &CreateOptions) -> (ErrorKind, String) {
    let error = create(path, options).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn counts_count_themselves() {
    let geometry = Geometry::new(9, L2Layout::Standard);
    // 64-bit refcounts, 64 in a cluster of 512 bytes, and everything allocated: refcount blocks
    // need further refcount blocks.
    for size in [0, 1, 512, 1 << 20, (1 << 30) + 512] {
        let layout = Layout::new(geometry, 6, size, Allocated::Everything, 0).unwrap();
        assert!(
            layout.refcount_blocks.count * 64 >= layout.clusters(),
            "{size}"
        );
        assert!(layout.refcount_table.count * 64 >= layout.refcount_blocks.count);
        assert_eq!(layout.data.count, size.div_ceil(512));
        assert_eq!(layout.data.start + layout.data.count, layout.clusters());
    }
    let too_large = Layout::new(geometry, 4, 1 << 60, Allocated::Nothing, 0).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::Invalid);
}

#[test]
fn what_does_not_go_together_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let backing = || NewBacking {
        name: "base".into(),
        format: Format::Raw,
        check: BackingCheck::Skip,
    };
    let data_file = |layout| NewDataFile {
        name: "data".into(),
        layout,
    };
    let cases = [
        qcow2(|image| image.cluster_size_bytes = 65535),
        qcow2(|image| image.cluster_size_bytes = 256),
        qcow2(|image| image.cluster_size_bytes = 4 << 20),
        qcow2(|image| image.refcount_bits = 12),
        qcow2(|image| image.refcount_bits = 128),
        qcow2(|image| image.refcount_bits = 0),
        qcow2(|image| {
            image.l2_entries = L2Entries::Extended;
            image.cluster_size_bytes = 8192;
        }),
        qcow2(|image| {
            image.compat = Compat::V0_10;
            image.refcounts = RefcountUpdates::Lazy;
        }),
        qcow2(|image| {
            image.backing = Some(backing());
            image.data_file = Some(data_file(DataFileLayout::Raw));
        }),
        qcow2(|image| {
            image.backing = Some(NewBacking {
                name: "a".repeat(1024).into(),
                ..backing()
            });
        }),
    ];
    for image in cases {
        let options = CreateOptions::new(image, Some(1 << 20));
        assert_eq!(
            refused(&path, &options).0,
            ErrorKind::Invalid,
            "{options:?}"
        );
    }
    let no_size = CreateOptions::new(qcow2(|image| image.backing = Some(backing())), None);
    assert!(refused(&path, &no_size).1.contains("missing size"));
    let hidden = CreateOptions {
        preallocation: Preallocation::Metadata,
        ..CreateOptions::new(no_size.image.clone(), Some(512))
    };
    assert!(refused(&path, &hidden).1.contains("extended_l2"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_there_stays_unless_told_otherwise_and_never_while_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    fs::write(&path, vec![7; 4096]).unwrap();
    let mut options = CreateOptions::new(NewImage::Raw, Some(1000));
    let (kind, text) = refused(&path, &options);
    assert_eq!(kind, ErrorKind::Exists);
    assert!(text.contains("--force"), "{text}");
    options.existing = Existing::Replace;
    let reader = Image::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(refused(&path, &options).0, ErrorKind::Locked);
    drop(reader);
    let created = create(&path, &options).unwrap();
    assert_eq!(created.virtual_size_bytes, 1024);
    assert_eq!(fs::read(&path).unwrap(), vec![0; 1024]);
    let sub = dir.path().join("sub");
    fs::create_dir(&sub).unwrap();
    assert_eq!(refused(&sub, &options).0, ErrorKind::Exists);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_backing_file_must_pass_the_gate() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let base = elsewhere.path().join("base");
    fs::write(&base, vec![1; 8192]).unwrap();
    let overlay = |gate: Gate| {
        let image = qcow2(|image| {
            image.backing = Some(NewBacking {
                name: base.clone(),
                format: Format::Raw,
                check: BackingCheck::Open(gate),
            });
        });
        CreateOptions::new(image, None)
    };
    let path = dir.path().join("overlay");
    assert_eq!(
        refused(&path, &overlay(Gate::default())).0,
        ErrorKind::Denied
    );
    let gate = Gate::default().allow(elsewhere.path());
    let created = create(&path, &overlay(gate.clone())).unwrap();
    assert_eq!(created.virtual_size_bytes, 8192);
    let options = OpenOptions {
        gate,
        ..OpenOptions::default()
    };
    let image = Image::open(&path, &options).unwrap();
    let mut byte = [0];
    image.device().read_at(8191, &mut byte).unwrap();
    assert_eq!(byte, [1]);
}
