//! VMDKs: parents, streams, and descriptors that name files.

use std::fs;
use std::path::Path;

use diskfs_block::ErrorKind;
use diskfs_image::{Format, Gate, Image, OpenOptions, StaleBase};

use crate::mapped::compare_bytes;
use crate::tools::{converted, have_qemu, run};

fn open(path: &Path) -> diskfs_block::Result<Image> {
    Image::open(path, &OpenOptions::default())
}

fn write(dir: &Path, image: &str, commands: &[&str]) {
    let commands = commands.iter().flat_map(|command| ["-c", command]);
    let args: Vec<&str> = ["-f", "vmdk"].into_iter().chain(commands).collect();
    run(dir, "qemu-io", &[&args[..], &[image]].concat());
}

#[test]
fn a_parent_shows_through_until_it_changes() {
    if !have_qemu() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    run(
        dir,
        "qemu-img",
        &["create", "-f", "vmdk", "base.vmdk", "4M"],
    );
    write(dir, "base.vmdk", &["write -P 1 0 1M", "write -P 2 3M 64k"]);
    for (name, below) in [("middle.vmdk", "base.vmdk"), ("top.vmdk", "middle.vmdk")] {
        let words = ["create", "-f", "vmdk", "-b", below, "-F", "vmdk", name];
        run(dir, "qemu-img", &words);
        write(dir, name, &["write -P 7 700k 100k"]);
    }
    let top = dir.join("top.vmdk");
    let image = open(&top).unwrap();
    let expected = converted(dir, "top.vmdk", &[]).unwrap();
    compare_bytes(image.device().as_ref(), &expected, 5, "parents");
    let depths = image.map().map(|entry| entry.unwrap().depth);
    assert_eq!(depths.max(), Some(2));
    drop(image);

    write(dir, "base.vmdk", &["write -P 3 0 512"]);
    let error = open(&top).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("stale"), "{error}");
    let forced = OpenOptions {
        stale_base: StaleBase::Open,
        ..OpenOptions::default()
    };
    Image::open(&top, &forced).unwrap();
}

#[test]
fn a_stream_is_read_like_a_disk() {
    if !have_qemu() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    run(
        dir,
        "qemu-img",
        &["create", "-f", "vmdk", "disk.vmdk", "40M"],
    );
    write(dir, "disk.vmdk", &["write -P 1 3M 2M", "write -P 2 39M 1M"]);
    let words = ["-O", "vmdk", "-o", "subformat=streamOptimized"];
    let words = [&["convert"], &words[..], &["disk.vmdk", "stream.vmdk"]].concat();
    run(dir, "qemu-img", &words);
    let image = open(&dir.join("stream.vmdk")).unwrap();
    let expected = converted(dir, "disk.vmdk", &[]).unwrap();
    compare_bytes(image.device().as_ref(), &expected, 6, "stream");
    assert!(image.map().any(|entry| entry.unwrap().compressed));
    let details = image.description().mapped.as_ref().unwrap();
    assert_eq!(details.variant.as_deref(), Some("streamOptimized"));
}

/// A descriptor names any file; the gate opens only those beside it.
#[test]
fn files_elsewhere_are_not_opened() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("images");
    fs::create_dir(&dir).unwrap();
    fs::write(temporary.path().join("secret.raw"), vec![9; 1 << 20]).unwrap();
    fs::write(dir.join("beside.raw"), vec![1; 1 << 20]).unwrap();
    let descriptor = |extents: &str, parent: &str| {
        let cid = if parent.is_empty() {
            "ffffffff"
        } else {
            "12345678"
        };
        format!(
            "# Disk DescriptorFile\nversion=1\nCID=00000001\nparentCID={cid}\n\
             createType=\"monolithicFlat\"\n{parent}\n{extents}\n"
        )
    };
    let path = dir.join("disk.vmdk");
    let opened = |text: String, gate: Gate| {
        fs::write(&path, text).unwrap();
        let options = OpenOptions {
            gate,
            ..OpenOptions::default()
        };
        Image::open(&path, &options)
    };
    let flat = |name: &str| format!("RW 2048 FLAT \"{name}\" 0");
    let beside = opened(descriptor(&flat("beside.raw"), ""), Gate::default());
    let mut byte = [0; 1];
    beside.unwrap().device().read_at(5, &mut byte).unwrap();
    assert_eq!(byte, [1]);
    for name in [
        "/etc/shadow",
        "../secret.raw",
        "/dev/zero",
        "nbd://host/x",
        "disk.vmdk",
    ] {
        let error = opened(descriptor(&flat(name), ""), Gate::default()).unwrap_err();
        let kind = error.kind();
        let is_refused = matches!(kind, ErrorKind::Denied | ErrorKind::Corrupt);
        assert!(is_refused, "{name}: {error}");
    }
    let closed = opened(descriptor(&flat("beside.raw"), ""), Gate::closed());
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Denied);
    let parent = "parentFileNameHint=\"/etc/shadow\"";
    let error = opened(descriptor(&flat("beside.raw"), parent), Gate::default()).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound),
        "{error}"
    );
    // Of an absolute path only the name is used, and a disk is not its own parent.
    let parent = "parentFileNameHint=\"C:\\disks\\disk.vmdk\"";
    let error = opened(descriptor(&flat("beside.raw"), parent), Gate::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

/// Packs `disk.vmdk` as all of this number of disks of `machine.ova`.
fn pack(dir: &Path, disks: usize) {
    let file = "<File ovf:id=\"f\" ovf:href=\"disk.vmdk\"/>";
    let disk =
        |n| format!("<Disk ovf:diskId=\"d{n}\" ovf:capacity=\"8388608\" ovf:fileRef=\"f\"/>");
    let disks: String = (0..disks).map(disk).collect();
    let text = format!(
        "<?xml version=\"1.0\"?><Envelope xmlns=\"http://schemas.dmtf.org/ovf/envelope/1\" \
         xmlns:ovf=\"http://schemas.dmtf.org/ovf/envelope/1\"><References>{file}</References>\
         <DiskSection><Info/>{disks}</DiskSection></Envelope>"
    );
    fs::write(dir.join("machine.ovf"), text).unwrap();
    let words = [
        "--format=ustar",
        "-cf",
        "machine.ova",
        "machine.ovf",
        "disk.vmdk",
    ];
    run(dir, "tar", &words);
}

/// The disk in a package is read in place; a package is found by its name, too.
#[test]
fn the_disks_of_a_package() {
    if !have_qemu() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    run(
        dir,
        "qemu-img",
        &["create", "-f", "vmdk", "disk.vmdk", "8M"],
    );
    write(dir, "disk.vmdk", &["write -P 1 3M 2M"]);
    let envelope = |disks| pack(dir, disks);
    envelope(1);
    let path = dir.join("machine.ova");
    let image = open(&path).unwrap();
    let expected = converted(dir, "disk.vmdk", &[]).unwrap();
    compare_bytes(image.device().as_ref(), &expected, 7, "package");
    assert!(image.description().warnings.is_empty());
    // The map has offsets in the archive.
    let bytes = fs::read(&path).unwrap();
    let stored = image.map().map(Result::unwrap).find(|entry| entry.data);
    let at = usize::try_from(stored.unwrap().host_offset.unwrap()).unwrap();
    assert_eq!(bytes[at..at + 512], [1; 512]);
    drop(image);

    fs::copy(&path, dir.join("disk.raw")).unwrap();
    // The envelope and the disk beside it.
    let image = open(&dir.join("machine.ovf")).unwrap();
    compare_bytes(image.device().as_ref(), &expected, 7, "envelope");
    assert_eq!(image.description().format, Some(Format::Ova));
    drop(image);
    let raw = open(&dir.join("disk.raw")).unwrap();
    assert_eq!(raw.device().size_bytes(), bytes.len() as u64);
    envelope(2);
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = error.to_string();
    assert!(
        said.contains("the package has 2 disks: `disk.vmdk`"),
        "{said}"
    );
    let named = |disk: &str| {
        let options = OpenOptions {
            disk: Some(disk.to_owned()),
            ..OpenOptions::default()
        };
        Image::open(&path, &options)
    };
    let image = named("d1").unwrap();
    compare_bytes(image.device().as_ref(), &expected, 7, "by its identifier");
    let opened = &image.description().mapped.as_ref().unwrap().disks;
    let opened: Vec<_> = opened
        .iter()
        .map(|disk| (&*disk.id, disk.is_open))
        .collect();
    assert_eq!(opened, [("d0", false), ("d1", true)]);
    named("disk.vmdk").unwrap();
    let missing = named("disk").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(
        missing.to_string().contains("the package has `disk.vmdk`"),
        "{missing}"
    );
    envelope(0);
    assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::Unsupported);

    envelope(1);
    let text = fs::read_to_string(dir.join("machine.ovf")).unwrap();
    for href in ["/etc/shadow", "../../etc/shadow", "http://x/disk.vmdk"] {
        let text = text.replace("disk.vmdk", href);
        fs::write(dir.join("evil.ovf"), text).unwrap();
        let refused = open(&dir.join("evil.ovf")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{href}: {refused}");
    }
    // A disk that names other files is refused.
    let words = [
        "create",
        "-f",
        "vmdk",
        "-o",
        "subformat=monolithicFlat",
        "disk.vmdk",
        "8M",
    ];
    run(dir, "qemu-img", &words);
    envelope(1);
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("other files"), "{error}");
}
