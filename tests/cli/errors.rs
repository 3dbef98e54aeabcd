//! Exit codes and messages: what failed, where, what to do.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use diskfs_fixtures::{image, require, run};
use serde_json::Value;

use crate::{DISKFS, diskfs, diskfs_in};

#[test]
fn exit_codes_are_the_documented_ones() {
    let demo = image("demo.qcow2");
    let cases: [(&[&str], i32, &str); 12] = [
        (&["ls", "no.img"], 3, "no.img: "),
        (&["cat", "demo.qcow2:/no"], 3, "demo.qcow2:/no: "),
        (
            &["cat", "demo.qcow2:/etc"],
            1,
            "demo.qcow2:/etc: is a directory",
        ),
        (
            &["cat", "demo.qcow2:/etc/fstab/x"],
            1,
            "demo.qcow2:/etc/fstab/x: not a directory",
        ),
        (&["ls", "--snapshot", "x", "demo.qcow2"], 3, "demo.qcow2"),
        (&["find", "demo.qcow2", "-nmae", "x"], 2, "`-nmae`"),
        (
            &["find", "demo.qcow2", "-name", "x", "--json"],
            2,
            "`--json`",
        ),
        (&["ls"], 2, "required"),
        (&["ls", "--format", "cloop", "demo.qcow2"], 2, "cloop"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["ls", "."], 4, "directory"),
        (&["cp", "demo.qcow2:/etc", "x"], 1, "give -r"),
    ];
    for (words, code, message) in cases {
        let (found, stderr) = diskfs(&demo, words).failure();
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{words:?}: {stderr}");
    }
}

#[test]
fn what_is_not_read_is_unsupported() {
    let name = "qcow2-unknown-feature.qcow2";
    let (code, stderr) = diskfs(&image(name), &["ls", name]).failure();
    assert_eq!(code, 4, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let encrypted = image("ext4-encrypt");
    let files = diskfs(&encrypted, &["find", "ext4-encrypt", "-type", "f"]).text();
    let codes: Vec<_> = files
        .lines()
        .map(|path| diskfs(&encrypted, &["cat", &format!("ext4-encrypt:{path}")]).code())
        .collect();
    assert!(codes.contains(&Some(4)), "{files}{codes:?}");
}

#[test]
fn a_wrong_checksum_is_corrupt_and_has_a_place() {
    let image = image("ext4-default");
    // The volume name, which the superblock's checksum covers.
    let file = fs::OpenOptions::new()
        .write(true)
        .open(image.path())
        .unwrap();
    file.write_all_at(b"other", 1024 + 0x78).unwrap();
    let (code, stderr) = diskfs(&image, &["ls", "ext4-default"]).failure();
    assert_eq!(code, 5, "{stderr}");
    assert!(
        stderr.contains("ext4-default: ") && stderr.contains("checksum"),
        "{stderr}"
    );
    // The volume is still listed.
    let info = diskfs(&image, &["info", "ext4-default"]);
    assert_eq!(info.code(), Some(5));
    assert!(String::from_utf8_lossy(&info.output.stdout).contains("ext4"));
}

#[test]
fn options_may_stand_among_operands() {
    let demo = image("demo.qcow2");
    let words = ["cp", "demo.qcow2:/etc/hostname", "--volume", "p1", "out"];
    diskfs(&demo, &words).bytes();
    let copied = fs::read(demo.directory().join("out")).unwrap();
    assert_eq!(copied, b"demo\n");
    for (words, message) in [
        (
            &["cp", "demo.qcow2:/etc/hostname", "--volume", "disk"][..],
            "missing DEST: `demo.qcow2:/etc/hostname` is the only operand",
        ),
        (&["mv", "demo.qcow2:/etc/hostname"], "missing IMG:/DEST"),
    ] {
        let (code, stderr) = diskfs(&demo, words).failure();
        assert_eq!(code, 2, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
}

#[test]
fn what_is_done_is_told_without_colours_but_on_a_terminal() {
    let demo = image("demo.qcow2");
    let run = diskfs(&demo, &["-vvv", "ls", "demo.qcow2:/etc"]);
    let told = run.stderr();
    assert!(!told.is_empty() && !told.contains('\u{1b}'), "{told}");
    if require("script").is_none() {
        return;
    }
    for (no_color, has_colours) in [("", true), ("1", false)] {
        let line = format!("{DISKFS} -vvv ls demo.qcow2:/etc");
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(demo.directory())
            .env("NO_COLOR", no_color)
            .env("DISKFS_VM", "none")
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.contains('\u{1b}'), has_colours, "{no_color}: {told}");
    }
}

#[test]
fn errors_are_json_too() {
    let demo = image("demo.qcow2");
    let run = diskfs(&demo, &["cat", "--json", "demo.qcow2:/no\nwhere"]);
    let (code, stderr) = run.failure();
    assert_eq!(code, 3);
    let error: Value = serde_json::from_str(&stderr).expect("one line of JSON");
    assert_eq!(error["diskfs"]["command"], "cat");
    assert_eq!(error["error"]["kind"], "not_found");
    assert_eq!(error["error"]["exit_code"], 3);
    assert_eq!(error["error"]["file"], "demo.qcow2");
    assert_eq!(error["error"]["path"], "/no\nwhere");
    let text = diskfs(&demo, &["cat", "demo.qcow2:/no\nwhere"]).failure().1;
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn one_failure_does_not_keep_the_rest_from_being_done() {
    let demo = image("demo.qcow2");
    let run = diskfs(&demo, &["cat", "demo.qcow2:/no", "/etc/hostname", "/etc"]);
    assert_eq!(run.output.stdout, b"demo\n");
    assert_eq!(run.code(), Some(3), "the exit code of the first failure");
    assert_eq!(run.stderr().lines().count(), 2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let image = image("ext4-large-dir");
    for words in [
        &["ls", "-R", "ext4-large-dir"][..],
        &["find", "ext4-large-dir"],
    ] {
        let mut child = Command::new(DISKFS)
            .args(words)
            .current_dir(image.directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut pipe = BufReader::with_capacity(16, child.stdout.take().unwrap());
        pipe.read_line(&mut line).unwrap();
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn files_that_an_image_names_need_leave() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::copy(
        image("ext4-default").path(),
        directory.path().join("base.raw"),
    )
    .unwrap();
    let create = "create -q -f qcow2 -F raw -b ../base.raw";
    let overlay = inner.join("top.qcow2");
    let words = create
        .split(' ')
        .map(std::path::Path::new)
        .chain([overlay.as_path()]);
    run("qemu-img", words).unwrap();
    let (code, stderr) = diskfs_in(directory.path(), &["ls", "inner/top.qcow2"]).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(
        stderr.contains("base.raw") && stderr.contains("--allow-backing"),
        "{stderr}"
    );
    let words = ["ls", "--allow-backing", ".", "inner/top.qcow2:/size-1"];
    assert_eq!(diskfs_in(directory.path(), &words).text(), "/size-1\n");
    let words = ["ls", "--no-backing", "inner/top.qcow2"];
    assert_eq!(diskfs_in(directory.path(), &words).code(), Some(6));
}

#[test]
fn an_image_in_use_is_locked() {
    if require("qemu-io").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    // qemu-io opens the image for writing, prompts, and waits for a command.
    let mut writer = Command::new("qemu-io")
        .args(["-f", "qcow2", "demo.qcow2"])
        .current_dir(demo.directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut prompt = [0; 8];
    writer
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut prompt)
        .unwrap();
    assert_eq!(&prompt, b"qemu-io>");
    let (code, stderr) = diskfs(&demo, &["ls", "demo.qcow2"]).failure();
    let shells = [&["shell"][..], &["shell", "--read-only"]]
        .map(|words| diskfs(&demo, &[words, &["-c", "ls", "demo.qcow2"]].concat()).failure());
    let forced = diskfs(&demo, &["cat", "--force-share", "demo.qcow2:/etc/hostname"]);
    drop(writer.stdin.take());
    writer.wait().unwrap();
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("--force-share"), "{stderr}");
    for (code, stderr) in shells {
        assert_eq!(code, 6, "{stderr}");
        assert!(
            stderr.starts_with("diskfs: ") && stderr.contains("--force-share"),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(forced.text(), "demo\n");
    assert_eq!(
        diskfs(&demo, &["ls", "demo.qcow2"]).code(),
        Some(0),
        "free again"
    );
}
