//! New encrypted images, which `cryptsetup` and QEMU open.

use std::process::{Command, Output};

use diskfs_fixtures::{pattern, require, run};

use crate::DISKFS;

const PASSPHRASE: &[u8] = b"correct horse";

fn diskfs(words: &[&str]) -> Output {
    Command::new(DISKFS).args(words).output().unwrap()
}

/// New volumes and images, which `cryptsetup` and QEMU open.
#[test]
fn new_images_are_encrypted() {
    if require("cryptsetup").is_none() || require("qemu-img").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("key"), PASSPHRASE).unwrap();
    std::fs::write(at("wrong"), "battery staple").unwrap();
    let mut plain = pattern("new images", 3 << 20);
    plain.resize(4 << 20, 0);
    std::fs::write(at("plain"), &plain).unwrap();
    let key = format!("file:{}", at("key"));
    let quick = "encrypt.iter-time=10";
    let made = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(["--encrypt", &key]).collect();
        let done = diskfs(&words);
        assert!(done.status.success(), "{words:?}: {done:?}");
    };
    made(&["create", "-o", quick, "-f", "raw", &at("new.luks"), "4M"]);
    made(&[
        "convert",
        "-o",
        quick,
        "-O",
        "raw",
        "--verify",
        &at("plain"),
        &at("disk.luks"),
    ]);
    let cipher = "encrypt.cipher-alg=aes-128,encrypt.cipher-mode=cbc,encrypt.ivgen-alg=essiv";
    made(&[
        "convert",
        "-o",
        quick,
        "-o",
        cipher,
        &at("plain"),
        &at("disk.qcow2"),
    ]);
    let full = "preallocation=full,cluster_size=4k";
    made(&[
        "convert",
        "-o",
        quick,
        "-o",
        full,
        "--verify",
        &at("plain"),
        &at("full.qcow2"),
    ]);

    for name in ["new.luks", "disk.luks"] {
        let (key, image) = (at("key"), at(name));
        let open = ["open", "--test-passphrase", "--key-file", &key, &image];
        run("cryptsetup", open).unwrap();
        let key = at("wrong");
        let open = ["open", "--test-passphrase", "--key-file", &key, &image];
        assert!(run("cryptsetup", open).is_err());
    }
    let secret = format!("secret,id=s,file={}", at("key"));
    let raw = format!("driver=raw,file.filename={}", at("plain"));
    for (driver, name) in [
        ("driver=luks,key-secret=s", "disk.luks"),
        ("driver=qcow2,encrypt.key-secret=s", "disk.qcow2"),
        ("driver=qcow2,encrypt.key-secret=s", "full.qcow2"),
    ] {
        let image = format!("{driver},file.filename={}", at(name));
        let compare = ["compare", "--object", &secret, "--image-opts", &image, &raw];
        run("qemu-img", compare).unwrap();
        let stored = std::fs::read(at(name)).unwrap();
        assert!(
            !stored.windows(32).any(|window| window == &plain[..32]),
            "{name}"
        );
    }
    let copy = at("copy.raw");
    let key_of = format!("disk.qcow2:file:{}", at("key"));
    let done = diskfs(&["convert", "--key", &key_of, &at("disk.qcow2"), &copy]);
    assert!(done.status.success(), "{done:?}");
    assert!(std::fs::read(copy).unwrap() == plain);
}

#[test]
fn a_refused_encryption_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("key"), PASSPHRASE).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    let before = std::fs::read_dir(dir.path()).unwrap().count();
    for (words, code) in [
        (vec!["-o", "encrypt.format=luks", "no.qcow2"], 2),
        (vec!["--encrypt", "secret", "no.qcow2"], 2),
        (vec!["--encrypt", "file:empty", "no.qcow2"], 2),
        (vec!["--encrypt", "file:missing", "no.qcow2"], 3),
        (
            vec![
                "--encrypt",
                "file:key",
                "-o",
                "encrypt.cipher-alg=rot13",
                "no.qcow2",
            ],
            2,
        ),
        (
            vec![
                "--encrypt",
                "file:key",
                "-o",
                "encrypt.hash-alg=md5",
                "no.qcow2",
            ],
            4,
        ),
        (vec!["--encrypt", "file:key", "no.vdi"], 4),
    ] {
        let words: Vec<String> = words
            .into_iter()
            .map(|word| match word.split_once(':') {
                Some(("file", name)) => format!("file:{}", at(name)),
                _ if word.starts_with("no.") => at(word),
                _ => word.to_owned(),
            })
            .collect();
        let words: Vec<&str> = ["create"]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .chain(["4M"])
            .collect();
        let done = diskfs(&words);
        assert_eq!(done.status.code(), Some(code), "{words:?}: {done:?}");
        assert!(!String::from_utf8_lossy(&done.stderr).contains("correct horse"));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), before);
}

/// The passphrase is asked for twice. `script` gives the program a terminal.
#[test]
fn a_passphrase_is_asked_for_on_the_terminal_alone() {
    if require("script").is_none() || require("setsid").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("new.qcow2");
    let words = format!(
        "{DISKFS} create --encrypt ask -o encrypt.iter-time=10 {} 1M",
        image.display()
    );
    let typed = |lines: &str| {
        let script = format!("(sleep 0.5; printf '{lines}') | script -qec '{words}' /dev/null");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).output().unwrap()
    };
    let differ = typed("one\\ntwo\\n");
    let told = String::from_utf8_lossy(&differ.stdout);
    assert!(!differ.status.success() && !image.exists(), "{differ:?}");
    assert!(told.contains("the passphrases differ"), "{told}");
    let made = typed("one\\none\\n");
    assert!(made.status.success(), "{made:?}");
    let told = String::from_utf8_lossy(&made.stdout);
    assert!(!told.contains("one"), "{told}");
    let key = "--key=all:env:KEY";
    let mut command = Command::new(DISKFS);
    command.args(["info", key]).arg(&image).env("KEY", "one");
    assert!(command.output().unwrap().status.success());

    std::fs::remove_file(&image).unwrap();
    let mut command = Command::new("setsid");
    let words = words.split(' ');
    let without = command.arg("--wait").args(words).output().unwrap();
    let told = String::from_utf8_lossy(&without.stderr);
    assert!(!without.status.success() && !image.exists(), "{without:?}");
    assert!(
        told.contains("no terminal is available") && told.contains("--encrypt file:FILE"),
        "{told}"
    );
}
