//! Encrypted volumes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs::block::{BlockRead, BlockWrite, File};
use diskfs::luks::{Header, Key, Limits, Unlocked};
use diskfs_fixtures::{TempImage, image, require, run};

use crate::diskfs;

const PASSPHRASE: &[u8] = b"correct horse";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What is inside of a volume, to write.
fn unlocked(path: &Path) -> Unlocked<File> {
    let device = Arc::new(File::open_read_write(path).unwrap());
    let header = Header::read(&*device).unwrap().unwrap();
    let key = Key::passphrase(PASSPHRASE);
    let key = header.unlock(&*device, &key, &Limits::default()).unwrap();
    Unlocked::new(device, &header, &key).unwrap()
}

/// An empty volume that `cryptsetup` makes beside the image, of a size; and its key's file.
fn format(disk: &TempImage, version: &str, size_bytes: u64) -> PathBuf {
    let (path, key) = (
        disk.directory().join("luks.img"),
        disk.directory().join("key"),
    );
    std::fs::write(&key, PASSPHRASE).unwrap();
    std::fs::File::create(&path)
        .unwrap()
        .set_len(size_bytes)
        .unwrap();
    let pbkdf = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    let format = [
        "--batch-mode",
        "luksFormat",
        "--type",
        version,
        "--key-file",
        text(&key),
    ];
    run("cryptsetup", [&format[..], &pbkdf, &[text(&path)]].concat()).unwrap();
    path
}

/// The same with `plain` inside.
fn encrypt(disk: &TempImage, version: &str, plain: &[u8]) -> PathBuf {
    let path = format(disk, version, plain.len() as u64 + (16 << 20));
    unlocked(&path).write_at(0, plain).unwrap();
    path
}

fn bytes_of(device: &dyn BlockRead) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_key_opens_what_is_inside() {
    if require("cryptsetup").is_none() {
        return;
    }
    for version in ["luks1", "luks2"] {
        let disk = image("ext4-default");
        let plain = std::fs::read(disk.path()).unwrap();
        encrypt(&disk, version, &plain);
        let (code, stderr) = diskfs(&disk, &["ls", "luks.img:/"]).failure();
        assert_eq!(code, 6, "{stderr}");
        assert!(stderr.contains("--key disk:ask"), "{stderr}");

        let expected = diskfs(&disk, &["ls", "ext4-default:/"]).text();
        for selector in ["all:file:key", "disk:file:key"] {
            let words = ["ls", "--key", selector, "luks.img:/"];
            assert_eq!(diskfs(&disk, &words).text(), expected);
        }
        let words = [
            "ls",
            "--key",
            "all:file:key",
            "--volume",
            "disk/luks",
            "luks.img:/",
        ];
        assert_eq!(diskfs(&disk, &words).text(), expected);

        // A key of another volume, a wrong one, one in clear.
        let words = ["ls", "--key", "p7:file:key", "luks.img:/"];
        assert_eq!(diskfs(&disk, &words).failure().0, 6);
        std::fs::write(disk.directory().join("wrong"), "x").unwrap();
        let words = ["ls", "--key", "all:file:wrong", "luks.img:/"];
        let (code, stderr) = diskfs(&disk, &words).failure();
        assert_eq!(code, 6, "{stderr}");
        assert!(stderr.contains("no key slot"), "{stderr}");
        let words = ["ls", "--key", "all:key:correct horse", "luks.img:/"];
        let (code, stderr) = diskfs(&disk, &words).failure();
        assert!(code == 2 && stderr.contains("--keys-in-clear"), "{stderr}");
        let words = [&words[..], &["--keys-in-clear"]].concat();
        assert_eq!(diskfs(&disk, &words).text(), expected);

        // A key file that an editor wrote.
        std::fs::write(disk.directory().join("line"), b"correct horse\n").unwrap();
        let words = ["ls", "--key", "all:file:line", "luks.img:/"];
        assert_eq!(diskfs(&disk, &words).text(), expected);
    }
}

#[test]
fn info_tells_the_header_and_the_inside() {
    if require("cryptsetup").is_none() {
        return;
    }
    let disk = image("ext4-default");
    let plain = std::fs::read(disk.path()).unwrap();
    let path = encrypt(&disk, "luks2", &plain);
    let uuid = run("cryptsetup", ["luksUUID", text(&path)]).unwrap();

    let locked = diskfs(&disk, &["info", "--json", "luks.img"]).json();
    let volumes = locked["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 1);
    let luks = &volumes[0]["luks"];
    assert_eq!(
        (&luks["version"], &luks["unlocked"]),
        (&2.into(), &false.into())
    );
    assert_eq!(luks["cipher"], "aes-xts-plain64");
    assert_eq!(luks["uuid"], uuid.trim());
    assert_eq!(luks["keyslots"][0]["kdf"], "pbkdf2");
    let shown = diskfs(&disk, &["info", "luks.img"]).text();
    assert!(
        shown.contains("LUKS2") && shown.contains("locked; give its key"),
        "{shown}"
    );

    let key = format!("{}:file:key", uuid.trim());
    let open = diskfs(&disk, &["info", "--json", "--key", &key, "luks.img"]).json();
    assert_eq!(open["volumes"][0]["luks"]["unlocked"], true);
    assert_eq!(open["volumes"][1]["volume"], "disk/luks");
    assert_eq!(open["volumes"][1]["content"], "ext4");
}

#[test]
fn what_is_inside_is_written() {
    if require("cryptsetup").is_none() || require("e2fsck").is_none() {
        return;
    }
    let disk = image("ext4-default");
    let plain = std::fs::read(disk.path()).unwrap();
    let path = encrypt(&disk, "luks2", &plain);
    let words = ["cp", "--key", "all:file:key", "key", "luks.img:/new-file"];
    diskfs(&disk, &words).text();
    let words = ["cat", "--key", "all:file:key", "luks.img:/new-file"];
    assert_eq!(diskfs(&disk, &words).bytes(), PASSPHRASE);
    let copy = disk.directory().join("copy");
    std::fs::write(&copy, &bytes_of(&unlocked(&path))[..plain.len()]).unwrap();
    run("e2fsck", ["-fn", text(&copy)]).unwrap();
    run("debugfs", ["-R", "stat /new-file", text(&copy)]).unwrap();
}

#[test]
fn lvm_inside_of_luks_and_luks_inside_of_luks() {
    if require("cryptsetup").is_none() {
        return;
    }
    let disk = image("lvm-linear.raw");
    let plain = std::fs::read(disk.path()).unwrap();
    let path = encrypt(&disk, "luks2", &plain);
    let words = ["ls", "--key", "all:file:key", "luks.img:/size-1"];
    assert_eq!(diskfs(&disk, &words).text(), "/size-1\n");
    let words = [
        "mkdir",
        "--key",
        "all:file:key",
        "--volume",
        "vg0/root",
        "luks.img:/new",
    ];
    assert_eq!(diskfs(&disk, &words).text(), "");
    let words = ["ls", "-d", "--key", "all:file:key", "luks.img:/new"];
    assert_eq!(diskfs(&disk, &words).text(), "/new\n");

    let inner = std::fs::read(&path).unwrap();
    encrypt(&disk, "luks2", &inner);
    assert_eq!(diskfs(&disk, &words).text(), "/new\n");
}

/// A logical volume that is encrypted.
#[test]
fn luks_inside_of_lvm() {
    if require("cryptsetup").is_none() {
        return;
    }
    let disk = image("lvm-linear.raw");
    let opened = diskfs::Disk::open_writable(disk.path(), &diskfs::OpenOptions::default()).unwrap();
    let root = opened
        .volume("vg0/root")
        .unwrap()
        .writable_device()
        .unwrap();
    let luks = std::fs::read(format(&disk, "luks1", root.size_bytes())).unwrap();
    root.write_at(0, &luks).unwrap();
    root.flush().unwrap();
    drop(root);
    opened.close().unwrap();
    let words = [
        "info",
        "--json",
        "--key",
        "vg0/root:file:key",
        "lvm-linear.raw",
    ];
    let info = diskfs(&disk, &words).json();
    let volumes = info["volumes"].as_array().unwrap();
    assert!(
        volumes
            .iter()
            .any(|volume| volume["volume"] == "vg0/root/luks"),
        "{info}"
    );
}
