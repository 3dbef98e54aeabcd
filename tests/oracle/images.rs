//! qcow2 images with a filesystem: every form, chains, snapshots, data files.

use std::path::Path;
use std::sync::Arc;

use diskfs::luks::Key;
use diskfs::{Disk, ErrorKind, Keys, OpenOptions, Share};
use diskfs_fixtures::{TempImage, expected_tree, image, require, run};

use super::{assert_same, filesystem};

/// The fixtures that contain the disk `ext2` unchanged.
const CONVERTED: [&str; 13] = [
    "qcow2-v2.qcow2",
    "qcow2-v3.qcow2",
    "qcow2-zlib.qcow2",
    "qcow2-zstd.qcow2",
    "qcow2-cluster-512.qcow2",
    "qcow2-cluster-512-zlib.qcow2",
    "qcow2-cluster-2m.qcow2",
    "qcow2-refcount-1.qcow2",
    "qcow2-refcount-64.qcow2",
    "qcow2-extended-l2.qcow2",
    "qcow2-preallocated.qcow2",
    "qcow2-dirty.qcow2",
    "qcow2-corrupt.qcow2",
];

#[test]
fn every_form_of_qcow2_holds_the_same_disk() {
    let expected_bytes = std::fs::read(image("ext2").path()).expect("read the raw disk");
    let expected = expected_tree("ext2");
    for name in CONVERTED {
        let image = image(name);
        let disk = Disk::open(image.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let device = disk.device();
        let mut bytes = vec![0; expected_bytes.len()];
        assert_eq!(device.size_bytes(), expected_bytes.len() as u64, "{name}");
        device
            .read_at(0, &mut bytes)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(bytes == expected_bytes, "{name} has other bytes");
        let filesystem = disk
            .filesystem()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same(name, &expected, &filesystem);
    }
}

/// The contents that `qemu-io` wrote at 7 MiB before each snapshot, and after the last.
#[test]
fn snapshots_are_read_by_name_and_by_id() {
    let image = image("qcow2-snapshots.qcow2");
    let path = image.path().display().to_string();
    for (suffix, byte) in [
        ("", 0x33),
        (",snapshot=before", 0x11),
        (",snapshot=after", 0x22),
        (",snapshot=1", 0x11),
        (",snapshot=2", 0x22),
    ] {
        let spec = format!("{path}{suffix}");
        let disk = Disk::options()
            .open_spec(&spec)
            .unwrap_or_else(|error| panic!("{suffix}: {error}"));
        let mut bytes = vec![0; 64 << 10];
        disk.device()
            .read_at(7 << 20, &mut bytes)
            .expect("readable");
        assert!(
            bytes.iter().all(|b| *b == byte),
            "{suffix}: {:#x}",
            bytes[0]
        );
    }
    let error = Disk::options().open_spec(format!("{path},snapshot=never"));
    assert_eq!(
        error.expect_err("no such snapshot").kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn zero_clusters_hide_what_is_behind_them() {
    let image = image("qcow2-zero-clusters.qcow2");
    let disk = super::disk(&image.path());
    let at = |offset| {
        let mut bytes = vec![1; 64 << 10];
        disk.device().read_at(offset, &mut bytes).expect("readable");
        assert!(bytes.iter().all(|b| *b == bytes[0]), "at {offset:#x}");
        bytes[0]
    };
    assert_eq!(at(6 << 20), 0);
    assert_eq!(at(6208 << 10), 0);
    assert_eq!(at(6272 << 10), 0x55);
    assert_eq!(at(7 << 20), 0);
}

/// Unsupported features of the format are refused by name.
#[test]
fn what_is_not_read_is_refused() {
    let name = "qcow2-unknown-feature.qcow2";
    let error = Disk::open(image(name).path()).expect_err(name);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("feature"), "{error}");
}

/// An encrypted image opens without its key; its contents are not readable.
#[test]
fn what_is_encrypted_needs_a_key() {
    let image = image("qcow2-luks.qcow2");
    let disk = Disk::open(image.path()).expect("open the image");
    let header = disk.image_luks().expect("readable").expect("a header");
    assert_eq!(header.cipher(), "aes-xts-plain64");
    // Nothing was ever written to it.
    assert!(disk.volumes().is_ok());
    // The key material of the fixture is removed, so that no key fits.
    let keys = Keys::default().with_all(Key::passphrase(b"diskfs"));
    let options = OpenOptions {
        unlock: Some(Arc::new(keys)),
        ..OpenOptions::default()
    };
    let error = Disk::options()
        .image(options)
        .open(image.path())
        .expect_err("no slot opens");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

fn qemu_img(words: &str, paths: &[&Path]) {
    let words = words.split_ascii_whitespace().map(Path::new);
    run("qemu-img", words.chain(paths.iter().copied())).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Returns the disk `ext4-default` in a separate directory, for chains beside it.
fn base() -> TempImage {
    image("ext4-default")
}

#[test]
fn a_filesystem_lies_across_a_chain() {
    if require("qemu-img").is_none() || require("qemu-io").is_none() {
        return;
    }
    let base = base();
    let middle = base.directory().join("middle.qcow2");
    let top = base.directory().join("top.qcow2");
    qemu_img("create -q -f qcow2 -F raw -b", &[&base.path(), &middle]);
    // The base has the same data as the middle: the tree stays the same, but the chain is used.
    qemu_img("create -q -f qcow2 -F qcow2 -b", &[&middle, &top]);
    qemu_img("rebase -q -u -F qcow2 -b middle.qcow2", &[&top]);
    let guest = base.directory().join("part");
    let bytes = std::fs::read(base.path()).expect("readable");
    std::fs::write(&guest, &bytes[..1 << 20]).expect("write the file");
    let command = format!("write -s {} 0 1M", guest.display());
    run(
        "qemu-io",
        ["-f", "qcow2", "-c", &command, &middle.display().to_string()],
    )
    .unwrap_or_else(|error| panic!("{error:#}"));
    let filesystem = filesystem(&top);
    assert_same("top of three", &expected_tree("ext4-default"), &filesystem);
    assert_eq!(chain_len(&top), 3);
}

fn chain_len(path: &Path) -> usize {
    let disk = super::disk(path);
    let backing = |description: &diskfs::image::Description| description.backing.clone();
    let mut next = backing(disk.description());
    let mut len = 1;
    while let Some(description) = next {
        next = backing(&description);
        len += 1;
    }
    len
}

#[test]
fn a_filesystem_lies_in_an_external_data_file() {
    if require("qemu-img").is_none() {
        return;
    }
    let base = base();
    let image = base.directory().join("image.qcow2");
    let data = base.directory().join("image.data");
    for raw in ["on", "off"] {
        let options = format!(
            "convert -f raw -O qcow2 -o data_file={},data_file_raw={raw}",
            data.display()
        );
        qemu_img(&options, &[&base.path(), &image]);
        let filesystem = filesystem(&image);
        assert_same(raw, &expected_tree("ext4-default"), &filesystem);
    }
}

#[test]
fn a_filesystem_is_read_from_a_snapshot() {
    if require("qemu-img").is_none() || require("qemu-io").is_none() {
        return;
    }
    let base = base();
    let image = base.directory().join("image.qcow2");
    qemu_img("convert -f raw -O qcow2", &[&base.path(), &image]);
    qemu_img("snapshot -c before", &[&image]);
    let path = image.display().to_string();
    run(
        "qemu-io",
        ["-f", "qcow2", "-c", "write -P 0xff 0 16M", &path],
    )
    .unwrap_or_else(|error| panic!("{error:#}"));
    let options = OpenOptions {
        snapshot: Some("before".to_owned()),
        ..Default::default()
    };
    let disk = Disk::options()
        .image(options)
        .open(&image)
        .unwrap_or_else(|error| panic!("{error}"));
    let filesystem = disk.filesystem().unwrap_or_else(|error| panic!("{error}"));
    assert_same("before", &expected_tree("ext4-default"), &filesystem);
    assert!(
        super::disk(&image).filesystem().is_err(),
        "it is overwritten now"
    );
}

/// While `qemu-io` has the image open for writing, diskfs refuses to read it unless it is forced.
#[test]
fn a_disk_in_use_is_refused() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    if require("qemu-io").is_none() {
        return;
    }
    let image = image("qcow2-v3.qcow2");
    let mut holder = Command::new("qemu-io")
        .args(["-f", "qcow2"])
        .arg(image.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start qemu-io");
    let stdin = holder.stdin.as_mut().expect("piped");
    std::io::Write::write_all(stdin, b"length\n").expect("write the command");
    // It answers when it has opened (and locked) the image.
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().expect("piped"))
        .read_line(&mut line)
        .expect("read its answer");
    let refused = Disk::open(image.path());
    let forced = Disk::options().share(Share::Force).open(image.path());
    drop(holder.stdin.take());
    holder.wait().expect("wait for its end");
    assert_eq!(refused.expect_err("locked").kind(), ErrorKind::Locked);
    forced.unwrap_or_else(|error| panic!("--force-share: {error}"));
    super::disk(&image.path());
}
