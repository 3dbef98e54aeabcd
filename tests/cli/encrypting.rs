//! New encrypted images, which `cryptsetup` and QEMU open.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use diskfs_fixtures::{Tmpfs, pattern, require, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{DISKFS, diskfs_in};

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

/// Runs a command on a terminal of `script`, and types a line at each prompt.
fn type_into(words: &str, lines: &[&str]) -> Output {
    let mut script = Command::new("script")
        .args(["-qec", words, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut terminal = script.stdin.take().unwrap();
    let mut shown = script.stdout.take().unwrap();
    let mut stdout = Vec::new();
    for line in lines {
        let mut byte = [0];
        while shown.read(&mut byte).unwrap() == 1 {
            stdout.push(byte[0]);
            if stdout.ends_with(b": ") {
                break;
            }
        }
        // The prompt appears before the terminal stops to show what is typed.
        std::thread::sleep(Duration::from_millis(500));
        terminal.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    shown.read_to_end(&mut stdout).unwrap();
    let output = script.wait_with_output().unwrap();
    Output { stdout, ..output }
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
    let typed = |lines: &[&str]| type_into(&words, lines);
    let differ = typed(&["one", "two"]);
    let told = String::from_utf8_lossy(&differ.stdout);
    assert!(!differ.status.success() && !image.exists(), "{differ:?}");
    assert!(told.contains("the passphrases differ"), "{told}");
    let made = typed(&["one", "one"]);
    assert!(made.status.success(), "{made:?}");
    let told = String::from_utf8_lossy(&made.stdout);
    assert!(!told.contains("one"), "{told}");
    let opens = |passphrase: &str| {
        let mut command = Command::new(DISKFS);
        let command = command.args(["map", "--key=all:env:KEY"]);
        let command = command.arg(&image).env("KEY", passphrase);
        command.output().unwrap().status.success()
    };
    assert!(opens("one"));
    let change = "--key-remove ask --key-add ask -o encrypt.iter-time=10";
    let change = format!("{DISKFS} amend {change} {}", image.display());
    let changed = type_into(&change, &["one", "two", "two"]);
    assert!(changed.status.success(), "{changed:?}");
    assert!(opens("two") && !opens("one"));

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

fn run_qemu(words: &[&str]) -> bool {
    let done = Command::new("qemu-img").args(words).output().unwrap();
    done.status.success()
}

/// Returns true if both programs read an image with this passphrase.
fn opens(dir: &Path, name: &str, passphrase: &str) -> bool {
    let driver = if name.ends_with("luks") {
        "driver=luks,key-secret=s"
    } else {
        "driver=qcow2,encrypt.key-secret=s"
    };
    let image = format!("{driver},file.filename={}", dir.join(name).display());
    let secret = format!("secret,id=s,data={passphrase}");
    let map = ["map", "--output=json", "--object", &secret];
    let map = [&map[..], &["--image-opts", &image]].concat();
    let theirs = run_qemu(&map);
    let ours = diskfs_in(dir, &[&["qemu-img"], &map[..]].concat());
    assert_eq!(theirs, ours.output.status.success(), "{name} {passphrase}");
    theirs
}

/// Keys of a LUKS volume and of a qcow2 image, which are added, changed and removed.
#[test]
fn keys_are_added_and_removed() {
    if require("cryptsetup").is_none() || require("qemu-img").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(dir.path(), words);
    for name in ["first", "second", "third"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let quick = "encrypt.iter-time=10";
    for name in ["disk.luks", "disk.qcow2"] {
        let format = if name == "disk.luks" { "raw" } else { "qcow2" };
        let create = [
            "create",
            "-f",
            format,
            "--encrypt",
            "file:first",
            "-o",
            quick,
        ];
        run(&[&create[..], &[name, "4M"]].concat()).bytes();
        let opens = |key: &str| opens(dir.path(), name, key);
        let key = format!("{name}:file:first");
        let amend = |words: &[&str]| run(&[&["amend", "--json"], words, &[name]].concat());
        let keys = |words: &[&str]| amend(words).json()["keys"].clone();
        let add = ["--key-add", "file:second", "-o", quick, "--key", &key];
        let done = keys(&add);
        assert_eq!(done, json!({"added": 1, "removed": [], "in_use": [0, 1]}));
        assert!(opens("first") && opens("second") && !opens("third"));

        let before = std::fs::read(dir.path().join(name)).unwrap();
        let wrong = format!("{name}:file:third");
        for (words, code) in [
            (&["--key-add", "file:third"][..], 6),
            (&["--key-add", "file:third", "--key", &wrong], 6),
            (
                &["--key-add", "file:third", "--key", &key, "--key-slot", "1"],
                1,
            ),
            (
                &["--key-add", "file:third", "--key", &key, "--key-slot", "8"],
                2,
            ),
            (&["--key-add", "file:none", "--key", &key], 3),
            (&["--key-add", "third", "--key", &key], 2),
            (&["--key-add", "file:third", "-o", "lazy_refcounts=on"], 2),
            (&["--key-remove", "file:third"], 6),
            (&["--key-remove", "file:first", "-o", quick], 2),
            (&["--key-remove", "slot:1"], 6),
            (&["--key-remove", "slot:0", "--key", &key], 6),
            (&["--key-remove", "slot:5", "--key", &key], 3),
            (&["--key-slot", "1", "-o", quick], 2),
        ] {
            let (found, message) = amend(words).failure();
            assert_eq!(found, code, "{words:?}: {message}");
            assert!(code != 6 || message.contains("\"hint\""), "{message}");
            let after = std::fs::read(dir.path().join(name)).unwrap();
            assert!(before == after, "{words:?}");
        }

        let change = [
            "--key-remove",
            "file:second",
            "--key-add",
            "file:third",
            "-o",
            quick,
        ];
        let done = keys(&change);
        assert_eq!(done, json!({"added": 2, "removed": [1], "in_use": [0, 2]}));
        assert!(opens("first") && !opens("second") && opens("third"));
        let done = keys(&["--key-remove", "slot:2", "--key", &key]);
        assert_eq!(done, json!({"added": null, "removed": [2], "in_use": [0]}));
        assert_eq!(amend(&["--key-remove", "file:first"]).failure().0, 6);
        assert!(opens("first") && !opens("third"));
        let replace = ["--key-add", "file:second", "--key", &key, "--key-slot", "0"];
        let replace = [&replace[..], &["--force", "-o", quick]].concat();
        assert_eq!(keys(&replace)["in_use"], json!([0]));
        assert!(!opens("first") && opens("second"));
        keys(&["--key-remove", "file:second", "--force"]);
        assert!(!opens("first") && !opens("second"));
    }
    let path = dir.path().join("disk.luks");
    let dump = diskfs_fixtures::run("cryptsetup", ["luksDump", path.to_str().unwrap()]).unwrap();
    assert!(!dump.contains("ENABLED"), "{dump}");
}

/// Images whose keys cannot be changed are not changed, and the reason is told.
#[test]
fn images_without_changeable_keys_are_refused() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(dir.path(), words);
    std::fs::write(dir.path().join("key"), "key").unwrap();
    run(&["create", "plain.raw", "1M"]).bytes();
    run(&["create", "plain.qcow2", "1M"]).bytes();
    run(&["create", "plain.vdi", "1M"]).bytes();
    run(&["create", "two.luks", "20M"]).bytes();
    let path = dir.path().join("two.luks");
    let format = [
        "luksFormat",
        "-q",
        "--type",
        "luks2",
        "--pbkdf",
        "pbkdf2",
        "--key-file",
    ];
    let key = dir.path().join("key");
    let paths = [key.to_str().unwrap(), path.to_str().unwrap()];
    diskfs_fixtures::run("cryptsetup", [&format[..], &paths].concat()).unwrap();
    for (name, code, words) in [
        ("plain.raw", 2, "not encrypted"),
        ("plain.qcow2", 2, "not encrypted"),
        ("plain.vdi", 1, "only read"),
        ("two.luks", 4, "LUKS2"),
        ("missing.luks", 3, "missing.luks"),
    ] {
        let add = [
            "amend",
            "--key-add",
            "file:key",
            "--key",
            "all:file:key",
            name,
        ];
        let (found, message) = run(&add).failure();
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
    let create = [
        "create",
        "-f",
        "raw",
        "--encrypt",
        "file:key",
        "-o",
        "encrypt.iter-time=10",
    ];
    run(&[&create[..], &["one.luks", "1M"]].concat()).bytes();
    let path = dir.path().join("one.luks");
    let held = diskfs::image::WritableImage::open(&path, &diskfs::OpenOptions::default()).unwrap();
    let remove = ["amend", "--key-remove", "file:key", "--force", "one.luks"];
    let (code, message) = run(&remove).failure();
    assert_eq!(code, 6, "{message}");
    drop(held);
    run(&remove).bytes();
}

/// The host has no room for the key material: the old key still opens the volume.
#[test]
fn a_key_without_room_changes_nothing() {
    if require("cryptsetup").is_none() || require("fallocate").is_none() {
        return;
    }
    let Some(tmpfs) = Tmpfs::new("8M") else {
        return;
    };
    let dir = tmpfs.path();
    for name in ["first", "second"] {
        std::fs::write(dir.join(name), name).unwrap();
    }
    let quick = ["-o", "encrypt.iter-time=10", "disk.luks"];
    let create = ["create", "-f", "raw", "--encrypt", "file:first"];
    diskfs_in(dir, &[&create[..], &quick, &["1M"]].concat()).bytes();
    let path = dir.join("disk.luks");
    let path = path.to_str().unwrap();
    // The area of key slot 1 becomes a hole.
    run("fallocate", ["-p", "-o", "262144", "-l", "258048", path]).unwrap();
    let add = [
        "amend",
        "--key",
        "all:file:first",
        "--key-add",
        "file:second",
    ];
    let add = [&add[..], &quick].concat();
    for but_bytes in [0, 64 << 10] {
        tmpfs.fill(but_bytes);
        let (code, message) = diskfs_in(dir, &add).failure();
        assert_eq!(code, 1, "{message}");
        assert!(message.contains("no space left on the host"), "{message}");
        tmpfs.free();
        let dump = run("cryptsetup", ["luksDump", path]).unwrap();
        assert_eq!(dump.matches("ENABLED").count(), 1, "{dump}");
        let open = ["open", "--test-passphrase", "--key-file"];
        let key = dir.join("first");
        let open = [&open[..], &[key.to_str().unwrap(), path]].concat();
        run("cryptsetup", open).unwrap();
    }
    diskfs_in(dir, &add).bytes();
    let dump = run("cryptsetup", ["luksDump", path]).unwrap();
    assert_eq!(dump.matches("ENABLED").count(), 2, "{dump}");
}

/// The commands that encrypt a new image: `source` is converted.
fn encrypting(source: &str) -> Vec<Vec<&str>> {
    let key = ["--encrypt", "file:key", "-o", "encrypt.iter-time=10"];
    let full = ["-o", "preallocation=full"];
    let create = [&["create"][..], &key].concat();
    let convert = [&["convert", source], &key[..]].concat();
    vec![
        [&create[..], &full, &["new.qcow2", "16M"]].concat(),
        [&create[..], &full, &["-f", "raw", "new.luks", "16M"]].concat(),
        [&convert[..], &["new.qcow2"]].concat(),
        [&convert[..], &["-O", "raw", "new.luks"]].concat(),
    ]
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != Tmpfs::FILLER).collect();
    names.sort();
    names
}

/// The host has no room for the whole image: no part of it is left.
#[test]
fn an_encrypted_image_without_room_does_not_appear() {
    let Some(tmpfs) = Tmpfs::new("24M") else {
        return;
    };
    let (full, directory) = (tmpfs.path(), tempfile::tempdir().unwrap());
    let source = directory.path().join("plain.raw");
    std::fs::write(&source, pattern("plain", 16 << 20)).unwrap();
    std::fs::write(full.join("key"), PASSPHRASE).unwrap();
    let commands = encrypting(source.to_str().unwrap());
    for but_bytes in [0, 64 << 10, 1 << 20, 3 << 20, 12 << 20] {
        tmpfs.fill(but_bytes);
        for words in &commands {
            let (code, message) = diskfs_in(full, words).failure();
            assert_eq!(code, 1, "{words:?}: {message}");
            for part in ["new.", "no space left on the host", "free space there"] {
                assert!(message.contains(part), "{words:?}: {message}");
            }
            assert_eq!(names(full), ["key"], "{but_bytes} {words:?}");
        }
    }
    tmpfs.free();
    for words in &commands {
        assert_eq!(diskfs_in(full, words).code(), Some(0), "{words:?}");
        std::fs::remove_file(full.join(words.iter().find(|it| it.starts_with("new.")).unwrap()))
            .unwrap();
    }
}

/// A process that is killed or asked to end leaves no image, or the complete one.
#[test]
fn a_killed_encryption_leaves_nothing() {
    if require("qemu-img").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("plain.raw"), pattern("plain", 48 << 20)).unwrap();
    std::fs::write(dir.join("key"), PASSPHRASE).unwrap();
    let before = names(dir);
    let mut killed = 0;
    for words in encrypting("plain.raw") {
        let new = words.iter().find(|word| word.starts_with("new."));
        let image = dir.join(new.unwrap());
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "16M" { "96M" } else { word })
            .collect();
        for signal in [Signal::KILL, Signal::TERM] {
            for wait_ms in [0, 15, 40, 80, 150, 300] {
                let mut command = Command::new(DISKFS);
                command.args(&words).current_dir(dir).stderr(Stdio::piped());
                let child = command.spawn().unwrap();
                std::thread::sleep(Duration::from_millis(wait_ms));
                // The process may have ended.
                let _ = kill_process(Pid::from_child(&child), signal);
                let output = child.wait_with_output().unwrap();
                let status = output.status;
                if !status.success() {
                    killed += 1;
                    assert_eq!(
                        status.signal(),
                        Some(signal.as_raw()),
                        "{words:?}: {output:?}"
                    );
                }
                // The image may have got its name just before the signal.
                if status.success() || image.exists() {
                    assert!(is_complete(dir, &image, words[0]), "{words:?}");
                    std::fs::remove_file(&image).unwrap();
                }
                assert_eq!(names(dir), before, "{words:?} {signal:?} {wait_ms}");
            }
        }
    }
    assert!(killed > 10, "{killed}");
}

/// Returns true if qemu-img reads an image that a command made. A copy has the contents of
/// `plain.raw`.
fn is_complete(dir: &Path, image: &Path, command: &str) -> bool {
    let driver = match image.extension().unwrap().to_str() {
        Some("luks") => "driver=luks,key-secret=s",
        _ => "driver=qcow2,encrypt.key-secret=s",
    };
    let image = format!("{driver},file.filename={}", image.display());
    let secret = format!("secret,id=s,file={}", dir.join("key").display());
    let of_plain = format!(
        "driver=raw,file.filename={}",
        dir.join("plain.raw").display()
    );
    let keyed = ["--object", &secret, "--image-opts", &image];
    match command {
        "convert" => run_qemu(&[&["compare"], &keyed[..], &[&of_plain]].concat()),
        _ => run_qemu(&[&["map", "--output=json"], &keyed[..]].concat()),
    }
}
