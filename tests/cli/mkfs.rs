//! mkfs: the result, checked with `fsck.vfat` and `blkid`, and the volumes that it refuses to
//! overwrite.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{image, require};

use crate::{diskfs, diskfs_in, text_of};

/// Returns the output of `blkid` for a file: lines of `NAME=value`.
fn blkid(directory: &Path, name: &str) -> String {
    let mut command = diskfs_fixtures::command("blkid");
    let command = command.args(["-p", "-o", "export", name]);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_new_image_becomes_a_seed() {
    if require("fsck.vfat").is_none() || require("blkid").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "seed.img", "4M"]).bytes();
    let words = ["mkfs", "fat", "-n", "cidata", "-i", "12ab-34CD", "seed.img"];
    assert_eq!(
        run(&words).text(),
        "disk: vfat, 4 MiB, label CIDATA, UUID 12AB-34CD\n"
    );
    let told = blkid(directory.path(), "seed.img");
    for line in [
        "TYPE=vfat",
        "LABEL=CIDATA",
        "UUID=12AB-34CD",
        "VERSION=FAT12",
    ] {
        assert!(told.contains(line), "{told}");
    }
    fs::write(directory.path().join("meta-data"), "instance-id: i-1\n").unwrap();
    run(&["cp", "meta-data", "seed.img:/"]).bytes();
    let mut fsck = diskfs_fixtures::command("fsck.vfat");
    let checked = fsck.args(["-n", "seed.img"]).current_dir(directory.path());
    assert!(checked.status().unwrap().success());
}

#[test]
fn a_new_image_becomes_exfat() {
    if require("fsck.exfat").is_none() || require("blkid").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "card.img", "8M"]).bytes();
    let words = ["mkfs", "exfat", "-L", "Card", "-i", "12ab-34CD", "card.img"];
    let told = run(&words).text();
    assert!(told.starts_with("disk: exfat, 8 MiB"), "{told}");
    let told = blkid(directory.path(), "card.img");
    for line in ["TYPE=exfat", "LABEL=Card", "UUID=12AB-34CD"] {
        assert!(told.contains(line), "{told}");
    }
    fs::create_dir_all(directory.path().join("DCIM/100 pictures")).unwrap();
    fs::write(directory.path().join("DCIM/100 pictures/a"), "picture").unwrap();
    run(&["cp", "-r", "DCIM", "card.img:/"]).bytes();
    let shown = run(&["cat", "card.img:/dcim/100 PICTURES/A"]).text();
    assert_eq!(shown, "picture");
    let link = run(&["ln", "-s", "x", "card.img:/link"]);
    assert_eq!(link.code(), Some(4), "{}", link.stderr());
    let mut fsck = diskfs_fixtures::command("fsck.exfat");
    let checked = fsck.args(["-n", "card.img"]).current_dir(directory.path());
    assert!(checked.status().unwrap().success());
}

#[test]
fn what_is_there_is_kept_unless_forced() {
    if require("blkid").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let before = fs::read(demo.path()).unwrap();
    for (words, code, part) in [
        (
            &["mkfs", "fat", "demo.qcow2"][..],
            2,
            "no volume is selected",
        ),
        (&["mkfs", "swap", "--os", "1", "demo.qcow2"], 2, "--os"),
        (&["mkfs", "swap", "demo.qcow2:/etc"], 2, "not a path"),
        (&["mkfs", "swap", "--volume", "p9", "demo.qcow2"], 3, "p9"),
        (
            &["mkfs", "fat", "-p", "1", "demo.qcow2"],
            1,
            "p1 already holds",
        ),
        (
            &[
                "mkfs",
                "fat",
                "-p",
                "1",
                "--overlay",
                "o.qcow2",
                "demo.qcow2",
            ],
            1,
            "--force",
        ),
        (
            &[
                "mkfs",
                "fat",
                "-p",
                "1",
                "--force",
                "-n",
                "twelve chars",
                "demo.qcow2",
            ],
            2,
            "at most 11",
        ),
    ] {
        let (found, stderr) = diskfs(&demo, words).failure();
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.contains(part), "{words:?}: {stderr}");
    }
    let words = [
        "mkfs",
        "swap",
        "-p",
        "1",
        "--force",
        "--dry-run",
        "--json",
        "demo.qcow2",
    ];
    let json = diskfs(&demo, &words).json();
    assert_eq!(text_of(&json["type"]), "swap");
    assert!(json["changed_bytes"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(fs::read(demo.path()).unwrap(), before);
    assert!(!demo.directory().join("o.qcow2").exists());

    let words = [
        "mkfs",
        "swap",
        "-L",
        "sw",
        "-p",
        "1",
        "--force",
        "demo.qcow2",
    ];
    let told = diskfs(&demo, &words).text();
    assert!(told.starts_with("p1: swap, "), "{told}");
    let json = diskfs(&demo, &["info", "--json", "demo.qcow2"]).json();
    let volumes = json["filesystems"].as_array().unwrap();
    let first = volumes.iter().find(|one| one["volume"] == "p1").unwrap();
    assert_eq!(text_of(&first["label"]), "sw", "{first}");
}

#[test]
fn a_swap_area_is_what_blkid_takes_it_for() {
    if require("blkid").is_none() || require("mkswap").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let uuid = "6f0b1a5e-53d6-4a7e-9d3f-0123456789ab";
    for page_size in ["4096"] {
        for name in ["ours", "theirs"] {
            let file = fs::File::create(directory.path().join(name)).unwrap();
            file.set_len(3 << 20).unwrap();
        }
        let words = [
            "mkfs",
            "swap",
            "-L",
            "pages",
            "-U",
            uuid,
            "--page-size",
            page_size,
        ];
        diskfs_in(directory.path(), &[&words[..], &["ours"]].concat()).bytes();
        let made = diskfs_fixtures::command("mkswap")
            .args(["-L", "pages", "-U", uuid, "-p", page_size, "theirs"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let [ours, theirs] =
            ["ours", "theirs"].map(|name| blkid(directory.path(), name).replace(name, "file"));
        assert_eq!(ours, theirs);
        let [ours, theirs] =
            ["ours", "theirs"].map(|name| fs::read(directory.path().join(name)).unwrap());
        assert!(ours == theirs, "the bytes differ");
    }
}
