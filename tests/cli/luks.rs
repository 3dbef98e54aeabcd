//! Commands on encrypted volumes.

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

/// Opens the contents of a volume for writing.
fn unlocked(path: &Path) -> Unlocked<File> {
    let device = Arc::new(File::open_read_write(path).unwrap());
    let header = Header::read(&*device).unwrap().unwrap();
    let key = Key::passphrase(PASSPHRASE);
    let key = header.unlock(&*device, &key, &Limits::default()).unwrap();
    Unlocked::new(device, &header, &key).unwrap()
}

/// Creates an empty volume of a given size beside the image with `cryptsetup`, and its key file.
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

/// Creates a volume that contains `plain`.
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

        // A key of another volume, a wrong key, and a key in clear text.
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

        // A key file that an editor wrote (with a newline).
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

/// An encrypted logical volume.
#[test]
fn luks_inside_of_lvm() {
    if require("cryptsetup").is_none() {
        return;
    }
    let disk = image("lvm-linear.raw");
    let opened = diskfs::Disk::options()
        .read_only(false)
        .open(disk.path())
        .unwrap();
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

/// QEMU's options for the key of an image whose own data is encrypted.
const KEY_OPTIONS: [&str; 3] = ["--object", "secret,id=key,file=key", "--image-opts"];

/// Makes `secret.qcow2`, the image `ext4-default` as qcow2 with encrypted data, and its key in
/// `key`.
fn encrypted_image(disk: &TempImage) -> PathBuf {
    std::fs::write(disk.directory().join("key"), PASSPHRASE).unwrap();
    let key = format!("secret,id=key,file={}", text(&disk.directory().join("key")));
    let path = disk.directory().join("secret.qcow2");
    let options = "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10";
    let convert = [
        "convert", "-f", "raw", "-O", "qcow2", "--object", &key, "-o", options,
    ];
    let raw = disk.path();
    let paths = [text(&raw), text(&path)];
    run("qemu-img", [&convert[..], &paths].concat()).unwrap();
    path
}

/// Runs `qemu-img` in the image's directory, with the key of `name` at each place of its chain that
/// `prefixes` names.
fn qemu_img(disk: &TempImage, words: &[&str], (name, prefixes): (&str, &[&str]), rest: &[&str]) {
    let mut options = format!("driver=qcow2,file.filename={name}");
    for prefix in prefixes {
        options = format!("{options},{prefix}encrypt.key-secret=key");
    }
    let output = std::process::Command::new("qemu-img")
        .args(words)
        .args(KEY_OPTIONS)
        .arg(&options)
        .args(rest)
        .current_dir(disk.directory())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_image_whose_data_is_encrypted() {
    if require("qemu-img").is_none() || require("e2fsck").is_none() {
        return;
    }
    let disk = image("ext4-default");
    encrypted_image(&disk);
    let (code, stderr) = diskfs(&disk, &["ls", "secret.qcow2:/"]).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("--key secret.qcow2:ask"), "{stderr}");
    let expected = diskfs(&disk, &["ls", "ext4-default:/"]).text();
    for selector in ["all:file:key", "secret.qcow2:file:key"] {
        let words = ["ls", "--key", selector, "secret.qcow2:/"];
        assert_eq!(diskfs(&disk, &words).text(), expected);
    }
    let words = ["ls", "--key", "other.qcow2:file:key", "secret.qcow2:/"];
    assert_eq!(diskfs(&disk, &words).failure().0, 6);
    std::fs::write(disk.directory().join("wrong"), "x").unwrap();
    let words = ["ls", "--key", "all:file:wrong", "secret.qcow2:/"];
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert!(code == 6 && stderr.contains("no key slot"), "{stderr}");

    // Written in place, and into an overlay that is not encrypted itself.
    let words = [
        "cp",
        "--key",
        "all:file:key",
        "key",
        "secret.qcow2:/new-file",
    ];
    diskfs(&disk, &words).text();
    let words = ["cat", "--key", "all:file:key", "secret.qcow2:/new-file"];
    assert_eq!(diskfs(&disk, &words).bytes(), PASSPHRASE);
    let into = ["--overlay", "top.qcow2", "--key", "secret.qcow2:file:key"];
    let words = ["mkdir", "secret.qcow2:/new-directory"];
    diskfs(&disk, &[&words[..1], &into, &words[1..]].concat()).text();
    let words = [
        "ls",
        "-d",
        "--key",
        "secret.qcow2:file:key",
        "top.qcow2:/new-directory",
    ];
    assert_eq!(diskfs(&disk, &words).text(), "/new-directory\n");

    for (chain, file) in [
        (("secret.qcow2", &[""][..]), "/new-file"),
        (("top.qcow2", &["backing."][..]), "/new-directory"),
    ] {
        qemu_img(&disk, &["check"], (chain.0, chain.1), &[]);
        qemu_img(&disk, &["convert", "-O", "raw"], chain, &["plain.raw"]);
        let plain = disk.directory().join("plain.raw");
        run("e2fsck", ["-fn", text(&plain)]).unwrap();
        let told = run("debugfs", ["-R", &format!("stat {file}"), text(&plain)]).unwrap();
        assert!(told.contains("Inode:"), "{told}");
    }
}

#[test]
fn snapshots_commits_and_info_of_an_encrypted_image() {
    if require("qemu-img").is_none() {
        return;
    }
    let disk = image("ext4-default");
    encrypted_image(&disk);
    // The tables are not encrypted.
    let words = ["snapshot", "create", "secret.qcow2", "before"];
    diskfs(&disk, &words).text();
    let key = ["--key", "all:file:key"];
    let words = ["mkdir", "secret.qcow2:/later"];
    diskfs(&disk, &[&words[..1], &key, &words[1..]].concat()).text();
    let list = |operand: &str| {
        let words = ["ls", "-d", "--key", "all:file:key", operand];
        diskfs(&disk, &words).code()
    };
    assert_eq!(list("secret.qcow2:/later"), Some(0));
    assert_eq!(list("secret.qcow2,snapshot=before:/later"), Some(3));
    let words = ["snapshot", "apply", "secret.qcow2", "before"];
    diskfs(&disk, &words).text();
    assert_eq!(list("secret.qcow2:/later"), Some(3));
    qemu_img(&disk, &["check"], ("secret.qcow2", &[""]), &[]);

    let words = ["create", "-b", "secret.qcow2", "-F", "qcow2", "top.qcow2"];
    diskfs(&disk, &words).text();
    let words = [
        "mkdir",
        "--key",
        "secret.qcow2:file:key",
        "top.qcow2:/later",
    ];
    diskfs(&disk, &words).text();
    assert_eq!(diskfs(&disk, &["commit", "top.qcow2"]).failure().0, 6);
    diskfs(&disk, &["commit", "--key", "all:file:key", "top.qcow2"]).text();
    assert_eq!(list("secret.qcow2:/later"), Some(0));
    qemu_img(&disk, &["check"], ("secret.qcow2", &[""]), &[]);

    let locked = diskfs(&disk, &["info", "secret.qcow2"]);
    assert_eq!(locked.code(), Some(6));
    let shown = String::from_utf8_lossy(&locked.output.stdout).into_owned();
    for word in [
        "LUKS, locked",
        "aes-xts-plain64",
        "give its key",
        "secret.qcow2:ask",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let words = ["info", "--json", "--key", "all:file:key", "secret.qcow2"];
    let open = diskfs(&disk, &words).json();
    assert_eq!(open["image"]["qcow2"]["encryption"]["unlocked"], true);
    assert_eq!(open["image"]["luks"]["version"], 1);
    assert_eq!(open["volumes"][0]["content"], "ext4");
    let uuid = open["image"]["luks"]["uuid"].as_str().unwrap();
    let key = format!("{uuid}:file:key");
    let words = ["ls", "-d", "--key", &key, "secret.qcow2:/later"];
    assert_eq!(diskfs(&disk, &words).text(), "/later\n");
}

/// QEMU's format `luks` for a whole disk: LUKS1 without a container.
#[test]
fn a_raw_disk_that_qemu_encrypts() {
    if require("qemu-img").is_none() {
        return;
    }
    let disk = image("ext4-default");
    let key = format!("secret,id=key,file={}", text(&disk.directory().join("key")));
    std::fs::write(disk.directory().join("key"), PASSPHRASE).unwrap();
    let path = disk.directory().join("disk.luks");
    let options = "key-secret=key,iter-time=10";
    let convert = [
        "convert", "-f", "raw", "-O", "luks", "--object", &key, "-o", options,
    ];
    let raw = disk.path();
    let paths = [text(&raw), text(&path)];
    run("qemu-img", [&convert[..], &paths].concat()).unwrap();
    let expected = diskfs(&disk, &["ls", "ext4-default:/"]).text();
    let words = ["ls", "--key", "disk:file:key", "disk.luks:/"];
    assert_eq!(diskfs(&disk, &words).text(), expected);
    let words = ["mkdir", "--key", "disk:file:key", "disk.luks:/new"];
    diskfs(&disk, &words).text();
    let back = disk.directory().join("back.raw");
    let source = format!("driver=luks,key-secret=key,file.filename={}", text(&path));
    let convert = [
        "convert",
        "--object",
        &key,
        "--image-opts",
        &source,
        "-O",
        "raw",
    ];
    run("qemu-img", [&convert[..], &[text(&back)]].concat()).unwrap();
    run("e2fsck", ["-fn", text(&back)]).unwrap();
}

/// Runs `cryptsetup` with the key, in the image's directory.
fn cryptsetup(disk: &TempImage, words: &[&str]) {
    let output = diskfs_fixtures::command("cryptsetup")
        .args(["--batch-mode", "--key-file", "key"])
        .args(words)
        .current_dir(disk.directory())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// `cryptsetup` encrypts the data with a detached header, and decrypts what diskfs wrote.
#[test]
fn a_header_in_a_file_of_its_own() {
    if require("cryptsetup").is_none() || require("e2fsck").is_none() {
        return;
    }
    let disk = image("ext4-default");
    std::fs::write(disk.directory().join("key"), PASSPHRASE).unwrap();
    let expected = diskfs(&disk, &["ls", "ext4-default:/"]).text();
    let data = disk.directory().join("data.img");
    std::fs::copy(disk.path(), &data).unwrap();
    let encrypt = [
        "reencrypt",
        "--encrypt",
        "--type",
        "luks2",
        "--header",
        "header.img",
    ];
    let pbkdf = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    cryptsetup(&disk, &[&encrypt[..], &pbkdf, &["data.img"]].concat());

    let header = ["--luks-header", "disk:header.img"];
    let key = ["--key", "disk:file:key"];
    let (code, stderr) = diskfs(&disk, &["ls", "data.img:/"]).failure();
    assert!(
        code != 6,
        "a detached header leaves no sign of encryption: {stderr}"
    );
    let words = [&["ls"], &header[..], &["data.img:/"]].concat();
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert!(code == 6 && stderr.contains("--key disk:ask"), "{stderr}");
    let words = [&["ls"], &header[..], &key, &["data.img:/"]].concat();
    assert_eq!(diskfs(&disk, &words).text(), expected);
    let words = [&["info", "--json"], &header[..], &key, &["data.img"]].concat();
    let info = diskfs(&disk, &words).json();
    assert_eq!(info["volumes"][0]["luks"]["unlocked"], true);
    assert_eq!(info["volumes"][1]["content"], "ext4");
    let words = [&["mkdir"], &header[..], &key, &["data.img:/new"]].concat();
    diskfs(&disk, &words).text();

    // The header by itself, a file that is no header, and a file that does not exist.
    let words = [&["ls"], &key[..], &["header.img:/"]].concat();
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert!(code == 4 && stderr.contains("--luks-header"), "{stderr}");
    for (file, code) in [("key", 2), ("nothing", 3)] {
        let header = format!("disk:{file}");
        let words = ["ls", "--luks-header", &header, "data.img:/"];
        let (failed, stderr) = diskfs(&disk, &words).failure();
        assert!(failed == code && stderr.contains(file), "{stderr}");
    }

    let force = [
        "--force-offline-reencrypt",
        "--header",
        "header.img",
        "data.img",
    ];
    cryptsetup(&disk, &[&["reencrypt", "--decrypt"], &force[..]].concat());
    run("e2fsck", ["-fn", text(&data)]).unwrap();
    let words = ["ls", "-d", "data.img:/new"];
    assert_eq!(diskfs(&disk, &words).text(), "/new\n");
}

/// Overwriting the start of a volume destroys the first header and all that identifies the kind of
/// volume.
#[test]
fn a_volume_whose_first_header_is_gone() {
    if require("cryptsetup").is_none() {
        return;
    }
    let disk = image("ext4-default");
    let plain = std::fs::read(disk.path()).unwrap();
    let path = encrypt(&disk, "luks2", &plain);
    cryptsetup(
        &disk,
        &[
            "luksHeaderBackup",
            "--header-backup-file",
            "backup",
            "luks.img",
        ],
    );
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 16384], 0).unwrap();
    let expected = diskfs(&disk, &["ls", "ext4-default:/"]).text();
    let (code, stderr) = diskfs(&disk, &["ls", "luks.img:/"]).failure();
    assert!(code == 6 && stderr.contains("--key disk:ask"), "{stderr}");
    let words = ["ls", "--key", "disk:file:key", "luks.img:/"];
    assert_eq!(diskfs(&disk, &words).text(), expected);
    let shown = diskfs(&disk, &["info", "luks.img"]).text();
    assert!(shown.contains("first copy is missing"), "{shown}");

    // Both headers are destroyed, with the keyslots.
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 1 << 20], 0).unwrap();
    let words = ["ls", "--key", "disk:file:key", "luks.img:/"];
    assert_ne!(diskfs(&disk, &words).failure().0, 6);
    let words = [&["ls", "--luks-header", "disk:backup"], &words[1..]].concat();
    assert_eq!(diskfs(&disk, &words).text(), expected);
}
