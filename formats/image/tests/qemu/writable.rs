//! Opening for writing: conflicts with other users, and the contents of raw images.

use std::path::Path;

use diskfs_block::ErrorKind;
use diskfs_image::{Format, Gate, Image, OpenOptions, Share, WritableImage};

use crate::hand_made::HandMade;
use crate::tools::{have_qemu, run, try_run};

fn open(dir: &Path, name: &str) -> diskfs_block::Result<WritableImage> {
    let options = OpenOptions {
        gate: Gate::default().allow(dir),
        ..OpenOptions::default()
    };
    Image::open_writable(&dir.join(name), &options)
}

#[test]
fn raw_images_are_written() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "disk.raw", "1M"],
    );
    let image = open(dir, "disk.raw").unwrap();
    let disk = image.device();
    disk.write_at(1000, &[7; 5000]).unwrap();
    disk.write_at(8192, &[8; 8192]).unwrap();
    disk.write_zeroes(2000, 1000).unwrap();
    disk.discard(8192, 4096).unwrap();
    assert!(disk.write_at((1 << 20) - 1, &[0; 2]).is_err());
    let mut back = vec![0; 5000];
    disk.read_at(1000, &mut back).unwrap();
    assert_eq!((back[999], back[1000], back[2000]), (7, 0, 7));
    image.close().unwrap();
    drop(disk);
    for (pattern, at, len) in [
        (7, 1000, 1000),
        (0, 2000, 1000),
        (7, 3000, 3000),
        (8, 12288, 4096),
    ] {
        let read = format!("read -P {pattern} {at} {len}");
        let out = run(dir, "qemu-io", &["-f", "raw", "-c", &read, "disk.raw"]);
        assert!(!out.contains("verification failed"), "{out}");
    }
}

#[test]
fn writers_are_alone() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (format, name) in [
        ("raw", "base.raw"),
        ("raw", "disk.raw"),
        ("qcow2", "mid.qcow2"),
    ] {
        run(dir, "qemu-img", &["create", "-q", "-f", format, name, "1M"]);
    }
    let args = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "base.raw",
        "-F",
        "raw",
        "top.qcow2",
    ];
    run(dir, "qemu-img", &args);
    for (format, name) in [("raw", "disk.raw"), ("qcow2", "top.qcow2")] {
        let writer = open(dir, name).unwrap();
        assert_eq!(open(dir, name).unwrap_err().kind(), ErrorKind::Locked);
        let e = Image::open(&dir.join(name), &OpenOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
        let write = ["-f", format, "-c", "write 0 512", name];
        let read = ["-rf", format, "-c", "read 0 512", name];
        // QEMU allows reading a raw image that others use.
        for args in [write, read]
            .iter()
            .take(if format == "raw" { 1 } else { 2 })
        {
            let output = try_run(dir, "qemu-io", args);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && text.contains("lock"), "{text}");
        }
        drop(writer);
        let reader = Image::open(&dir.join(name), &OpenOptions::default()).unwrap();
        assert_eq!(open(dir, name).unwrap_err().kind(), ErrorKind::Locked);
        drop(reader);
    }
    // A reader after a writer.
    let top = open(dir, "top.qcow2").unwrap();
    Image::open(&dir.join("base.raw"), &OpenOptions::default()).unwrap();
    assert_eq!(open(dir, "base.raw").unwrap_err().kind(), ErrorKind::Locked);
    drop(top);
}

#[test]
fn what_cannot_be_written_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut marked = HandMade::new();
    marked.set64(72, 0b10);
    marked.write(&path);
    let options = OpenOptions::default();
    let e = WritableImage::open(&path, &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("qemu-img check -r all"), "{e}");

    HandMade::new().write(&path);
    let snapshot = OpenOptions {
        snapshot: Some("a".to_owned()),
        ..options.clone()
    };
    let e = WritableImage::open(&path, &snapshot).unwrap_err();
    assert_eq!((e.kind(), e.path()), (ErrorKind::ReadOnly, Some(&*path)));
    let shared = OpenOptions {
        share: Share::Force,
        ..options.clone()
    };
    let e = WritableImage::open(&path, &shared).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid);
    let none = WritableImage::open(&dir.path().join("none"), &options).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

#[test]
fn a_probed_raw_image_stays_raw() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![0; 8192]).unwrap();
    let head = HandMade::new().bytes[..512].to_vec();
    let image = WritableImage::open(&path, &OpenOptions::default()).unwrap();
    let e = image.device().write_at(0, &head).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    drop(image);
    assert_eq!(std::fs::read(&path).unwrap(), vec![0; 8192]);
    let given = OpenOptions {
        format: Some(Format::Raw),
        ..OpenOptions::default()
    };
    let image = WritableImage::open(&path, &given).unwrap();
    image.device().write_at(0, &head).unwrap();
}
