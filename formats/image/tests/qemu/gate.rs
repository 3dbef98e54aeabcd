//! Files that an image names.

use std::os::unix::fs::symlink;
use std::path::Path;

use diskfs_block::{Error, ErrorKind};
use diskfs_image::{Gate, Image, OpenOptions};

use crate::hand_made::HandMade;

fn open(path: &Path, gate: Gate) -> diskfs_block::Result<Image> {
    let options = OpenOptions {
        gate,
        ..OpenOptions::default()
    };
    Image::open(path, &options)
}

/// An image in `dir` that names `backing`.
fn naming(dir: &Path, backing: &str) -> std::path::PathBuf {
    let mut image = HandMade::new();
    image.set_backing(backing, Some("raw"));
    let path = dir.join("disk.qcow2");
    image.write(&path);
    path
}

fn refused(path: &Path, gate: Gate) -> Error {
    let e = open(path, gate).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
    assert!(e.path().is_some_and(|p| p.ends_with("disk.qcow2")), "{e}");
    assert!(e.next_step().is_some(), "{e}");
    e
}

#[test]
fn what_is_below_the_own_directory_opens() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("bases/old")).unwrap();
    std::fs::write(dir.path().join("bases/old/b.raw"), vec![7; 1 << 17]).unwrap();
    let absolute = dir.path().join("bases/old/b.raw");
    symlink("bases/old/b.raw", dir.path().join("link")).unwrap();
    let dotted = "bases/../bases/./old/b.raw";
    for name in [
        "bases/old/b.raw",
        absolute.to_str().unwrap(),
        "link",
        dotted,
    ] {
        let path = naming(dir.path(), name);
        let image = open(&path, Gate::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut byte = [0];
        image.device().read_at(65536, &mut byte).unwrap();
        assert_eq!(byte, [7], "{name}");
        // Behind the end of the shorter backing file.
        image.device().read_at(15 * 65536, &mut byte).unwrap();
        assert_eq!(byte, [0], "{name}");
        let e = refused(&path, Gate::closed());
        assert!(e.to_string().contains("--no-backing"), "{e}");
    }
}

#[test]
fn what_is_outside_is_refused_unless_allowed() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), vec![7; 65536]).unwrap();
    let secret = outside.path().join("secret").to_str().unwrap().to_owned();
    let dir = tempfile::tempdir().unwrap();
    symlink(&secret, dir.path().join("link")).unwrap();
    symlink(outside.path(), dir.path().join("dir")).unwrap();
    let upwards = format!("../../../../../../../../..{secret}");
    for name in ["/etc/shadow", &secret, "link", "dir/secret", &upwards] {
        let path = naming(dir.path(), name);
        let e = refused(&path, Gate::default());
        assert!(e.to_string().contains("--allow-backing"), "{name}: {e}");
        assert!(e.to_string().contains(name), "{name}: {e}");
        let allowed = open(&path, Gate::default().allow(outside.path()));
        assert_eq!(allowed.is_ok(), name != "/etc/shadow", "{name}");
    }
    // Whether a file exists there is not told.
    let path = naming(dir.path(), "/etc/no-such-file");
    refused(&path, Gate::default());
    let path = naming(dir.path(), "no-such-file");
    let e = open(&path, Gate::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
}

#[test]
fn what_is_no_plain_path_to_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    for name in [
        r#"json:{"driver":"raw","file":{"driver":"file","filename":"/etc/passwd"}}"#,
        "nbd://localhost/x",
        "nbd:unix:/run/x",
        "file:base.raw",
        "ssh://host/file",
        ":x",
        "fifo",
        "sub",
        "/dev/null",
    ] {
        let path = naming(dir.path(), name);
        let gate = Gate::default().allow("/dev");
        let e = refused(&path, gate);
        assert!(e.to_string().contains("backing file `"), "{e}");
    }
    // A colon after a slash is part of a name.
    std::fs::write(dir.path().join("a:b"), vec![7; 65536]).unwrap();
    open(&naming(dir.path(), "./a:b"), Gate::default()).unwrap();
}

#[test]
fn data_files_go_through_the_gate_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = HandMade::new();
    image.set64(72, 1 << 2);
    image.add_extension(0x4441_5441, b"/etc/passwd");
    let path = dir.path().join("disk.qcow2");
    image.write(&path);
    let e = refused(&path, Gate::default());
    assert!(e.to_string().contains("data file `/etc/passwd`"), "{e}");
}

#[test]
fn formats_of_backing_files_are_not_guessed() {
    let dir = tempfile::tempdir().unwrap();
    // A raw disk whose guest wrote a qcow2 header with a backing file to it.
    let mut inner = HandMade::new();
    inner.set_backing("/etc/passwd", Some("raw"));
    inner.write(&dir.path().join("base"));
    let mut image = HandMade::new();
    image.set64(L2_ENTRY_0, 0);
    let path = dir.path().join("disk.qcow2");
    for format in [None, Some("raw")] {
        image.set_backing("base", format);
        image.write(&path);
        let opened = open(&path, Gate::default()).unwrap();
        let mut head = [0; 4];
        opened.device().read_at(0, &mut head).unwrap();
        assert_eq!(&head, b"QFI\xfb", "read as raw");
        let warned = opened
            .description()
            .warnings
            .iter()
            .any(|w| w.contains("backing.format="));
        assert_eq!(warned, format.is_none());
    }
    image.set_backing("base", Some("qcow2"));
    image.write(&path);
    let e = open(&path, Gate::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    assert!(e.path().unwrap().ends_with("base"), "{e}");
    image.set_backing("base", Some("vmdk"));
    image.write(&path);
    let e = open(&path, Gate::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("vmdk"), "{e}");
}

const L2_ENTRY_0: usize = crate::hand_made::L2;

#[test]
fn loops_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let name = |i: u32| format!("d{i}.qcow2");
    for (i, next) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
        let mut image = HandMade::new();
        image.set_backing(&name(next), Some("qcow2"));
        image.write(&dir.path().join(name(i)));
    }
    for i in [0, 3] {
        let e = open(&dir.path().join(name(i)), Gate::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert!(e.to_string().contains("loops"), "{e}");
    }
}

#[test]
fn chains_end_after_64_images() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..65 {
        let mut image = HandMade::new();
        image.bytes.truncate(5 * 65536);
        image.set64(L2_ENTRY_0, 0);
        image.set64(L2_ENTRY_0 + 16, 0);
        if i < 64 {
            image.set_backing(&format!("d{}", i + 1), Some("qcow2"));
        }
        image.write(&dir.path().join(format!("d{i}")));
    }
    let opened = open(&dir.path().join("d1"), Gate::default()).unwrap();
    let mut all = vec![1; 1 << 20];
    opened.device().read_at(0, &mut all).unwrap();
    assert!(all.iter().all(|&b| b == 0));
    assert_eq!(opened.map().last().unwrap().unwrap().depth, 63);
    let e = open(&dir.path().join("d0"), Gate::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("64"), "{e}");
}
