//! Incremental backups: the worked example of the help text, with files of a guest.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{Tmpfs, have};

use crate::diskfs_in;
use crate::resize_stacks::shell;

/// Makes `disk.qcow2`, whose guest has `/etc/fstab` and some files that never change.
fn make_disk(dir: &Path) {
    let script = "mkdir -p root/etc root/srv
        echo one > root/etc/fstab
        head -c 300000 /dev/urandom > root/srv/kept
        mke2fs -q -t ext4 -d root disk.raw 32M
        qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2
        rm disk.raw";
    shell(dir, script);
}

#[test]
fn one_file_comes_out_of_each_increment() {
    if !have(&["qemu-img", "mke2fs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let run = |words: &[&str]| diskfs_in(dir, words);
    make_disk(dir);
    let mut previous: Option<(String, String)> = None;
    for (number, text) in ["one", "two", "three", "four"].iter().enumerate() {
        fs::write(dir.join("fstab"), format!("{text}\n")).unwrap();
        run(&["cp", "fstab", "disk.qcow2:/etc/fstab"]).bytes();
        let bitmap = format!("day{number}");
        run(&["bitmap", "checkpoint", &bitmap, "disk.qcow2"]).bytes();
        let new = format!("backup{number}.qcow2");
        let words = ["backup", "--json", "--verify", "disk.qcow2", "-o", &new];
        if let Some((since, backing)) = &previous {
            let more = ["--since", since, "--backing", backing, "-c"];
            let document = run(&[&words[..], &more].concat()).json();
            assert_eq!(document["since"], since.as_str());
            assert_eq!(document["backing"], backing.as_str());
            let marked = document["marked_bytes"].as_u64().unwrap();
            assert!((1..8 << 20).contains(&marked), "{marked}");
            let size = document["file_size_bytes"].as_u64().unwrap();
            assert!(size < 1 << 20, "{size}");
            run(&["bitmap", "remove", "disk.qcow2", since]).bytes();
        } else {
            let document = run(&words).json();
            assert_eq!(document["virtual_size_bytes"], 32 << 20);
            assert_eq!(document["since"], serde_json::Value::Null);
        }
        shell(dir, &format!("cp disk.qcow2 then{number}"));
        previous = Some((bitmap, new));
    }
    // A copy without its time is still a backup.
    shell(
        dir,
        "mkdir away && cp backup*.qcow2 away && touch away/backup1.qcow2",
    );
    for (number, text) in ["one", "two", "three", "four"].iter().enumerate() {
        for place in ["", "away/"] {
            let backup = format!("{place}backup{number}.qcow2");
            let fstab = format!("{backup}:/etc/fstab");
            run(&["cp", &fstab, "restored"]).bytes();
            let restored = fs::read_to_string(dir.join("restored")).unwrap();
            assert_eq!(restored, format!("{text}\n"));
            let kept = run(&["cat", &format!("{backup}:/srv/kept")]);
            assert!(kept.bytes() == fs::read(dir.join("root/srv/kept")).unwrap());
        }
        let script = format!(
            "qemu-img compare -q -f qcow2 -F qcow2 backup{number}.qcow2 then{number}
             qemu-img check -q backup{number}.qcow2"
        );
        shell(dir, &script);
    }
}

/// The words that are refused, with the exit code and a part of the message.
const REFUSED: &[(&[&str], i32, &str)] = &[
    (&["-o", "inc.qcow2"], 1, "use --force to replace it"),
    (&["-o", "-"], 2, "standard output"),
    (&["-o", "new.vmdk"], 2, "suggests another format"),
    (
        &["-o", "disk.qcow2", "--force"],
        2,
        "the image that is read",
    ),
    (
        &["-o", "new.qcow2", "--backing", "full.qcow2"],
        2,
        "--since",
    ),
    (
        &["-o", "new.qcow2", "--since", "b"],
        3,
        "available: `a`, `off`",
    ),
    (
        &["-o", "new.qcow2", "--since", "off"],
        2,
        "bitmap `off` is disabled",
    ),
    (
        &["-o", "new.qcow2", "--since", "a", "--verify"],
        2,
        "give --backing",
    ),
    (
        &["-o", "new.qcow2", "--since", "a", "--backing", "no.qcow2"],
        3,
        "no.qcow2",
    ),
    (
        &["-o", "new.qcow2", "--since", "a", "--backing", "disk.qcow2"],
        2,
        "the previous backup is the image that is backed up",
    ),
    (
        &[
            "-o",
            "inc.qcow2",
            "--since",
            "a",
            "--backing",
            "inc.qcow2",
            "--force",
        ],
        2,
        "the target is the previous backup",
    ),
    (
        &[
            "-o",
            "full.qcow2",
            "--since",
            "a",
            "--backing",
            "inc.qcow2",
            "--force",
        ],
        2,
        "one of its backing files",
    ),
    (
        &[
            "-o",
            "other/new.qcow2",
            "--since",
            "a",
            "--backing",
            "../full.qcow2",
        ],
        6,
        "--allow-backing",
    ),
    (
        &[
            "-o",
            "new.qcow2",
            "--since",
            "a",
            "--backing",
            "full.qcow2",
            "-F",
            "vmdk",
        ],
        5,
        "full.qcow2",
    ),
];

#[test]
fn what_is_refused_changes_nothing() {
    if !have(&["qemu-img", "mke2fs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let run = |words: &[&str]| diskfs_in(dir, words);
    make_disk(dir);
    run(&["bitmap", "add", "disk.qcow2", "a"]).bytes();
    run(&["bitmap", "add", "--disabled", "disk.qcow2", "off"]).bytes();
    run(&["backup", "disk.qcow2", "-o", "full.qcow2"]).bytes();
    run(&[
        "backup",
        "disk.qcow2",
        "--since",
        "a",
        "--backing",
        "full.qcow2",
        "-o",
        "inc.qcow2",
    ])
    .bytes();
    fs::create_dir(dir.join("other")).unwrap();
    fs::copy(dir.join("full.qcow2"), dir.join("other/full.qcow2")).unwrap();
    let before = fs::read(dir.join("inc.qcow2")).unwrap();
    for (words, code, said) in REFUSED {
        let run = run(&[&["backup", "disk.qcow2"], *words].concat());
        let (found, stderr) = run.failure();
        assert!(stderr.contains(said), "{words:?}: {stderr}");
        assert_eq!(found, *code, "{words:?}: {stderr}");
        assert!(!dir.join("new.qcow2").exists() && !dir.join("other/new.qcow2").exists());
    }
    assert!(fs::read(dir.join("inc.qcow2")).unwrap() == before);
    let allowed = "other/new.qcow2 --since a --backing ../full.qcow2 --allow-backing .";
    let words = [&["backup", "disk.qcow2", "-o"][..], &words_of(allowed)].concat();
    run(&words).bytes();
    // The wrong previous backup is noticed when the copy is verified.
    fs::write(dir.join("fstab"), "changed\n").unwrap();
    run(&["cp", "fstab", "disk.qcow2:/etc/fstab"]).bytes();
    run(&["bitmap", "add", "disk.qcow2", "late"]).bytes();
    let skipped = "new.qcow2 --since late --backing full.qcow2 --verify";
    let words = [&["backup", "disk.qcow2", "-o"][..], &words_of(skipped)].concat();
    let (code, said) = run(&words).failure();
    assert_eq!(code, 1);
    assert!(
        said.contains("the new image differs from its source"),
        "{said}"
    );
    assert!(!dir.join("new.qcow2").exists());
}

fn words_of(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

#[test]
fn a_full_host_leaves_nothing() {
    let Some(tmpfs) = Tmpfs::new("2M") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let run = |words: &[&str]| diskfs_in(dir, words);
    run(&["create", "disk.qcow2", "32M"]).bytes();
    run(&["bitmap", "add", "disk.qcow2", "a"]).bytes();
    fs::write(dir.join("raw"), diskfs_fixtures::pattern("backup", 8 << 20)).unwrap();
    run(&["convert", "-n", "-O", "qcow2", "raw", "disk.qcow2"]);
    let target = tmpfs.path().join("inc.qcow2");
    let target = target.to_str().unwrap();
    let (code, said) = run(&["backup", "disk.qcow2", "--since", "a", "-o", target]).failure();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no space left on the host"), "{said}");
    assert_eq!(tmpfs.path().read_dir().unwrap().count(), 0);
}
