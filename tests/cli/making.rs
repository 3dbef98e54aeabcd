//! create: the words of the command; what the images are like is proved in `formats/image`.

use std::fs;

use diskfs_fixtures::require;

use crate::{diskfs_in, text_of};

#[test]
fn create_makes_images_and_keeps_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    diskfs_in(directory.path(), &["create", "disk.img", "1.5M"]).bytes();
    assert_eq!(fs::metadata(at("disk.img")).unwrap().len(), 3 << 19);
    let (code, stderr) = diskfs_in(directory.path(), &["create", "disk.img", "1M"]).failure();
    assert_eq!(code, 1);
    assert!(stderr.contains("--force"), "{stderr}");
    diskfs_in(directory.path(), &["create", "--force", "disk.img", "1M"]).bytes();
    let words = [
        "create",
        "--json",
        "-b",
        "disk.img",
        "-F",
        "raw",
        "top.qcow2",
    ];
    let json = diskfs_in(directory.path(), &words).json();
    assert_eq!(text_of(&json["format"]), "qcow2");
    assert_eq!(json["virtual_size_bytes"], 1 << 20);
    let info = diskfs_in(directory.path(), &["info", "--json", "top.qcow2"]).json();
    assert_eq!(text_of(&info["image"]["backing"]["path"]), "disk.img");
    for (words, code) in [
        (&["create", "new.img"][..], 2),
        (&["create", "new.qcow2", "-b", "disk.img"], 2),
        (&["create", "new.qcow2", "-b", "none.img", "-F", "raw"], 3),
        (
            &["create", "new.qcow2", "-b", "/etc/passwd", "-F", "raw"],
            6,
        ),
        (&["create", "no/new.qcow2", "1G"], 3),
        (&["create", "new.img", "1X"], 2),
    ] {
        assert_eq!(
            diskfs_in(directory.path(), words).failure().0,
            code,
            "{words:?}"
        );
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn create_takes_the_words_of_qemu_img() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let words = [
        "create",
        "-f",
        "qcow2",
        "-o",
        "cluster_size=16k,extended_l2=on,refcount_bits=32,preallocation=metadata",
        "disk",
        "10M",
    ];
    diskfs_in(directory.path(), &words).bytes();
    let output = std::process::Command::new("qemu-img")
        .args(["check", "-f", "qcow2", "disk"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn snapshots_and_overlays_are_managed() {
    if require("mke2fs").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "base.img", "32M"]).bytes();
    let image = directory.path().join("base.img");
    let made = std::process::Command::new("mke2fs")
        .args(["-q", "-t", "ext4"])
        .arg(image)
        .status();
    assert!(made.unwrap().success());
    run(&["create", "-b", "base.img", "-F", "raw", "top.qcow2"]).bytes();
    run(&["mkdir", "top.qcow2:/one"]).bytes();
    run(&["snapshot", "create", "top.qcow2", "first"]).bytes();
    run(&["mv", "top.qcow2:/one", "/two"]).bytes();
    let ls = |image: &str| run(&["ls", image]).text();
    assert_eq!(ls("top.qcow2,snapshot=first:/"), "lost+found\none\n");
    assert_eq!(ls("top.qcow2:/"), "lost+found\ntwo\n");
    let list = run(&["snapshot", "list", "--json", "top.qcow2"]).json();
    assert_eq!(text_of(&list["snapshots"][0]["name"]), "first");
    assert!(
        run(&["snapshot", "list", "top.qcow2"])
            .text()
            .ends_with("\tfirst\n")
    );
    run(&["snapshot", "apply", "top.qcow2", "first"]).bytes();
    assert_eq!(ls("top.qcow2:/"), "lost+found\none\n");
    for (words, code) in [
        (&["snapshot", "create", "top.qcow2", "first"][..], 1),
        (&["snapshot", "apply", "top.qcow2", "second"], 3),
        (&["snapshot", "create", "base.img", "first"], 4),
        (&["commit", "base.img"], 2),
        (&["rebase", "-b", "base.img", "top.qcow2"], 2),
        (&["rebase", "-b", "none.img", "-F", "raw", "top.qcow2"], 3),
    ] {
        assert_eq!(run(words).failure().0, code, "{words:?}");
    }
    run(&["snapshot", "delete", "top.qcow2", "1"]).bytes();
    assert_eq!(run(&["snapshot", "list", "top.qcow2"]).text(), "");
    fs::copy(
        directory.path().join("base.img"),
        directory.path().join("old.img"),
    )
    .unwrap();
    let committed = run(&["commit", "--json", "top.qcow2"]).json();
    assert_eq!(committed["emptied"], true);
    assert_eq!(ls("base.img:/"), "lost+found\none\n");
    run(&["rebase", "-b", "old.img", "-F", "raw", "top.qcow2"]).bytes();
    assert_eq!(ls("top.qcow2:/"), "lost+found\none\n");
    run(&["rebase", "-b", "", "top.qcow2"]).bytes();
    fs::remove_file(directory.path().join("old.img")).unwrap();
    assert_eq!(ls("top.qcow2:/"), "lost+found\none\n");
}
