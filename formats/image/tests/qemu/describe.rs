//! The description of an image, compared with `qemu-img info`.

use diskfs_image::{BitmapState, Compression, Format, Image, OpenOptions};

use crate::tools::{create, have_qemu, run};

#[test]
fn snapshots_and_bitmaps_are_listed() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let options = "compression_type=zstd,extended_l2=on,refcount_bits=32,lazy_refcounts=on";
    create(dir, options, "8M");
    run(
        dir,
        "qemu-img",
        &["bitmap", "--add", "-g", "128k", "disk.qcow2", "nightly"],
    );
    run(
        dir,
        "qemu-img",
        &["bitmap", "--add", "--disable", "disk.qcow2", "old"],
    );
    run(dir, "qemu-io", &["-c", "write -P 1 0 64k", "disk.qcow2"]);
    run(
        dir,
        "qemu-img",
        &["snapshot", "-c", "before upgrade", "disk.qcow2"],
    );
    run(dir, "qemu-io", &["-c", "write -P 2 0 64k", "disk.qcow2"]);
    run(dir, "qemu-img", &["snapshot", "-c", "1", "disk.qcow2"]);
    run(dir, "qemu-io", &["-c", "write -P 3 0 64k", "disk.qcow2"]);
    let path = dir.join("disk.qcow2");
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    let description = image.description();
    assert_eq!(description.format, Some(Format::Qcow2));
    assert_eq!(description.virtual_size_bytes, 8 << 20);
    let details = description.qcow2.as_ref().unwrap();
    assert_eq!((details.version, details.compat()), (3, "1.1"));
    assert_eq!(details.compression, Compression::Zstd);
    assert_eq!((details.refcount_bits, details.extended_l2), (32, true));
    assert!(details.lazy_refcounts);
    let snapshots: Vec<_> = details
        .snapshots
        .iter()
        .map(|s| (&*s.id, &*s.name))
        .collect();
    assert_eq!(snapshots, [("1", "before upgrade"), ("2", "1")]);
    assert_eq!(details.snapshots[0].virtual_size_bytes, Some(8 << 20));
    assert_eq!(details.snapshots[0].vm_state_bytes, 0);
    let bitmaps: Vec<_> = details
        .bitmaps
        .iter()
        .map(|b| (&*b.name, b.granularity_bytes, b.recording, b.state))
        .collect();
    assert_eq!(
        bitmaps,
        [
            ("nightly", 128 << 10, true, BitmapState::Consistent),
            ("old", 64 << 10, false, BitmapState::Consistent),
        ]
    );
    assert!(image.check().unwrap().unwrap().is_clean());
    // An id takes precedence over a name, as in QEMU.
    for (snapshot, expected) in [
        (None, 3),
        (Some("before upgrade"), 1),
        (Some("1"), 1),
        (Some("2"), 2),
    ] {
        let options = OpenOptions {
            snapshot: snapshot.map(str::to_owned),
            ..OpenOptions::default()
        };
        let image = Image::open(&path, &options).unwrap();
        let mut byte = [0];
        image.device().read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [expected], "{snapshot:?}");
    }
}

/// A snapshot keeps the previous size of the disk.
#[test]
fn snapshots_have_their_own_size() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "disk.qcow2", "8M"],
    );
    run(dir, "qemu-img", &["snapshot", "-c", "small", "disk.qcow2"]);
    run(dir, "qemu-img", &["resize", "-q", "disk.qcow2", "2G"]);
    let size = |snapshot: Option<&str>| {
        let options = OpenOptions {
            snapshot: snapshot.map(str::to_owned),
            ..OpenOptions::default()
        };
        let image = Image::open(&dir.join("disk.qcow2"), &options).unwrap();
        image.device().size_bytes()
    };
    assert_eq!((size(None), size(Some("small"))), (2 << 30, 8 << 20));
}
