//! The gate for files that an image names.

use std::os::unix::fs::symlink;
use std::path::Path;

use diskfs_block::{Error, ErrorKind};
use diskfs_image::{Format, Gate, Image, OpenOptions, Policy, WritableImage};

use crate::hand_made::HandMade;

fn open(path: &Path, gate: Gate) -> diskfs_block::Result<Image> {
    let options = OpenOptions {
        gate,
        ..OpenOptions::default()
    };
    Image::open(path, &options)
}

/// Creates an image in `dir` that names `backing`.
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
        // A read past the end of the shorter backing file.
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
    // The error does not reveal whether the file exists.
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
    // A colon after a slash is part of the name.
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

/// Creates an image in `dir` with an external data file.
fn with_data_file(dir: &Path, name: &str, data_file: &str) -> std::path::PathBuf {
    let mut image = HandMade::new();
    image.set64(72, 1 << 2);
    image.set64(crate::hand_made::L2, 0);
    image.set64(crate::hand_made::L2 + 16, 0);
    image.add_extension(0x4441_5441, data_file.as_bytes());
    let path = dir.join(name);
    image.write(&path);
    path
}

fn open_writable(path: &Path, gate: Gate) -> diskfs_block::Result<WritableImage> {
    let options = OpenOptions {
        gate,
        ..OpenOptions::default()
    };
    WritableImage::open(path, &options)
}

#[test]
fn a_data_file_is_written_only_when_it_is_allowed_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("neighbour.raw");
    std::fs::write(&data, vec![7; 1 << 20]).unwrap();
    let path = with_data_file(dir.path(), "disk.qcow2", "neighbour.raw");
    // Reading is allowed by the gate, as for backing files.
    open(&path, Gate::default()).unwrap();
    let policy = Policy::Below(vec![dir.path().to_owned()]);
    for gate in [Gate::default(), Gate::from(policy)] {
        let e = open_writable(&path, gate).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
        assert!(e.to_string().contains("--data-file"), "{e}");
    }
    let other = Gate::default().allow_data_file(dir.path().join("other.raw"));
    open_writable(&path, other).unwrap_err();
    for gate in [
        Gate::default().allow(dir.path()),
        Gate::default().allow_data_file(&data),
        Gate::closed().allow_data_file(&data),
    ] {
        let image = open_writable(&path, gate).unwrap();
        image.device().write_at(0, &[8; 512]).unwrap();
        image.close().unwrap();
    }
    assert_eq!(std::fs::read(&data).unwrap()[..512], [8; 512]);
    // Another image, or a dot file, is never written.
    let mut victim = HandMade::new();
    victim.set_backing("base", Some("raw"));
    for (name, bytes) in [
        ("victim.qcow2", victim.bytes.as_slice()),
        ("victim.vmdk", b"KDMV"),
        (".bashrc", b"# shell"),
        (".ssh/authorized_keys", b"ssh-ed25519"),
    ] {
        std::fs::create_dir_all(dir.path().join(".ssh")).unwrap();
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let path = with_data_file(dir.path(), "hostile.qcow2", name);
        let mut gates = vec![Gate::default(), Gate::default().allow(dir.path())];
        if !name.contains('/') {
            gates.push(Gate::default().allow_data_file(dir.path().join(name)));
        }
        for gate in gates {
            let e = open_writable(&path, gate).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Denied, "{name}: {e}");
            assert!(e.next_step().is_some(), "{name}: {e}");
        }
        assert!(
            std::fs::read(dir.path().join(name)).unwrap() == bytes,
            "{name}"
        );
    }
}

#[test]
fn dot_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".ssh")).unwrap();
    std::fs::create_dir(dir.path().join(".cache")).unwrap();
    for name in [".bashrc", ".ssh/id_rsa", ".cache/base.raw"] {
        std::fs::write(dir.path().join(name), vec![7; 1 << 17]).unwrap();
    }
    symlink(".bashrc", dir.path().join("link")).unwrap();
    for name in [".bashrc", ".ssh/id_rsa", "link", "x/../.bashrc"] {
        std::fs::create_dir_all(dir.path().join("x")).unwrap();
        let e = refused(&naming(dir.path(), name), Gate::default());
        assert!(e.to_string().contains("dot file"), "{e}");
    }
    // A directory that the user names may have any name.
    let path = naming(dir.path(), ".cache/base.raw");
    refused(&path, Gate::default());
    let gate = Gate::default().allow(dir.path().join(".cache"));
    open(&path, gate.allow(dir.path())).unwrap();
}

/// Only root can change the owner of files.
#[test]
fn siblings_of_another_owner_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base.raw");
    std::fs::write(&base, vec![7; 1 << 17]).unwrap();
    let path = naming(dir.path(), "base.raw");
    if std::os::unix::fs::chown(&base, Some(12_345), None).is_err() {
        return;
    }
    let e = refused(&path, Gate::default());
    assert!(e.to_string().contains("user 12345"), "{e}");
    assert!(e.to_string().contains("--allow-backing"), "{e}");
    open(&path, Gate::default().allow(dir.path())).unwrap();
    open(
        &path,
        Gate::from(Policy::Below(vec![dir.path().to_owned()])),
    )
    .unwrap();
    // A chain of images with the same owner is allowed, whoever that is.
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    open(&path, Gate::default()).unwrap();
}

#[test]
fn a_policy_of_directories_leaves_out_what_is_beside_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let templates = tempfile::tempdir().unwrap();
    for place in [dir.path(), templates.path()] {
        std::fs::write(place.join("base.raw"), vec![7; 1 << 17]).unwrap();
    }
    let gate = || Gate::from(Policy::Below(vec![templates.path().to_owned()]));
    let e = refused(&naming(dir.path(), "base.raw"), gate());
    assert!(e.to_string().contains("configuration"), "{e}");
    let template = templates.path().join("base.raw");
    open(&naming(dir.path(), template.to_str().unwrap()), gate()).unwrap();
    refused(&naming(dir.path(), "base.raw"), Gate::from(Policy::Closed));
}

/// A header that a guest wrote to its raw disk never selects files, however the disk is opened.
#[test]
fn a_raw_disk_that_became_an_image_is_refused_with_both_ways_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base"), vec![7; 1 << 20]).unwrap();
    let mut backed = HandMade::new();
    backed.set_backing("base", Some("raw"));
    let data = with_data_file(dir.path(), "data.qcow2", "base");
    let alone = HandMade::new();
    for (bytes, names) in [
        (backed.bytes.clone(), true),
        (std::fs::read(data).unwrap(), true),
        (alone.bytes.clone(), false),
    ] {
        for name in ["a.raw", "a.img", "a.RAW", "a.b.Img"] {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let with = |format| OpenOptions {
                format,
                ..OpenOptions::default()
            };
            let probed = Image::open(&path, &with(None));
            for format in [Format::Raw, Format::Qcow2] {
                let opened = Image::open(&path, &with(Some(format))).unwrap();
                assert_eq!(opened.description().format, Some(format));
            }
            if names {
                let e = probed.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Denied, "{name}: {e}");
                let text = e.to_string();
                assert!(
                    text.contains(",format=raw") && text.contains(",format=qcow2"),
                    "{e}"
                );
                let e = WritableImage::open(&path, &with(None)).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Denied, "{name}: {e}");
            } else {
                let warnings = probed.unwrap().description().warnings.concat();
                let is_raw = name.eq_ignore_ascii_case("a.raw");
                assert_eq!(
                    warnings.contains(",format=raw"),
                    is_raw,
                    "{name}: {warnings}"
                );
            }
        }
        let path = dir.path().join("a.qcow2");
        std::fs::write(&path, &bytes).unwrap();
        open(&path, Gate::default()).unwrap();
    }
}

#[test]
fn files_with_several_names_are_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.raw"), vec![7; 1 << 17]).unwrap();
    let path = naming(dir.path(), "base.raw");
    let warnings = |path: &Path| open(path, Gate::default()).unwrap().description().clone();
    assert!(warnings(&path).backing.unwrap().warnings.is_empty());
    std::fs::hard_link(dir.path().join("base.raw"), dir.path().join("other")).unwrap();
    let of_backing = warnings(&path).backing.unwrap().warnings.concat();
    assert!(of_backing.contains("hard link"), "{of_backing}");
    // Other names of a file that is only read are harmless.
    std::fs::hard_link(&path, dir.path().join("disk")).unwrap();
    assert!(!warnings(&path).warnings.concat().contains("hard link"));
    let image = open_writable(&path, Gate::default()).unwrap();
    assert!(image.description().warnings.concat().contains("hard link"));
}

#[test]
fn formats_of_backing_files_are_not_guessed() {
    let dir = tempfile::tempdir().unwrap();
    // A raw disk to which the guest wrote a qcow2 header with a backing file.
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
    image.set_backing("base", Some("bochs"));
    image.write(&path);
    let e = open(&path, Gate::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("bochs"), "{e}");
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
        assert!(e.to_string().contains("has a loop"), "{e}");
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
