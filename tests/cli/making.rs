//! create: the options of the command; `formats/image` tests the images themselves.

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
    let made = diskfs_fixtures::command("mke2fs")
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

/// An overlay mixes clusters of two states if its backing file changes: it is then refused, and a
/// warning precedes the change.
#[test]
fn an_overlay_whose_base_was_changed_is_refused() {
    if require("mke2fs").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    let image = directory.path().join("e.img");
    fs::write(&image, vec![0; 32 << 20]).unwrap();
    let made = diskfs_fixtures::command("mke2fs")
        .args(["-q", "-t", "ext4"])
        .arg(&image)
        .status();
    assert!(made.unwrap().success());
    run(&["mkdir", "--overlay", "st.qcow2", "e.img:/over"]).bytes();
    run(&["create", "-b", "e.img", "-F", "raw", "made.qcow2"]).bytes();
    run(&["ls", "e.img"]).bytes();
    for overlay in ["st.qcow2", "made.qcow2"] {
        run(&["ls", overlay]).bytes();
        run(&["touch", &format!("{overlay}:/f")]).bytes();
    }
    // Unchanged, and also if it is copied with its time.
    fs::create_dir(directory.path().join("copy")).unwrap();
    let copied = std::process::Command::new("cp")
        .args(["-p", "e.img", "st.qcow2", "copy"])
        .current_dir(directory.path())
        .status();
    assert!(copied.unwrap().success());
    run(&["touch", "copy/st.qcow2:/g"]).bytes();

    let written = run(&["mkdir", "e.img:/below"]);
    let said = written.stderr();
    assert!(
        said.contains("is the backing file of made.qcow2, st.qcow2"),
        "{said}"
    );
    for words in [
        &["ls", "st.qcow2"][..],
        &["touch", "st.qcow2:/f"],
        &["info", "made.qcow2"],
        &["commit", "st.qcow2"],
        &["rebase", "-b", "", "made.qcow2"],
        &["mkdir", "--overlay", "st.qcow2", "e.img:/more"],
        &["deploy", "st.qcow2", "--write", "/x:y"],
    ] {
        let (code, stderr) = run(words).failure();
        assert_eq!(code, 6, "{words:?}: {stderr}");
        assert!(
            stderr.contains("stale") && stderr.contains("--force-stale"),
            "{stderr}"
        );
    }
    let forced = run(&["ls", "--force-stale", "made.qcow2"]);
    assert!(forced.stderr().contains("stale"), "{}", forced.stderr());
    // After `rebase -u` has confirmed the backing file, it opens.
    run(&["rebase", "-u", "-b", "e.img", "-F", "raw", "made.qcow2"]).bytes();
    run(&["ls", "made.qcow2"]).bytes();
}

/// A commit to the backing file through the overlay changes nothing that the overlay shows.
#[test]
fn an_overlay_outlives_its_own_commit() {
    if require("mke2fs").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    let image = directory.path().join("e.img");
    fs::write(&image, vec![0; 32 << 20]).unwrap();
    let made = diskfs_fixtures::command("mke2fs")
        .args(["-q", "-t", "ext4"])
        .arg(&image)
        .status();
    assert!(made.unwrap().success());
    run(&["mkdir", "--overlay", "o.qcow2", "e.img:/one"]).bytes();
    for (words, dir) in [
        (&["commit", "o.qcow2"][..], "o.qcow2:/two"),
        (&["commit", "-d", "o.qcow2"], "o.qcow2:/three"),
    ] {
        run(words).bytes();
        run(&["mkdir", dir]).bytes();
    }
    run(&["create", "other.qcow2", "32M"]).bytes();
    run(&["rebase", "-b", "other.qcow2", "-F", "qcow2", "o.qcow2"]).bytes();
    assert_eq!(
        run(&["ls", "o.qcow2:/"]).text(),
        "lost+found\none\nthree\ntwo\n"
    );
    run(&["mkdir", "e.img:/alone"]).bytes();
    run(&["ls", "o.qcow2"]).bytes();
    if require("qemu-img").is_none() {
        return;
    }
    let check = std::process::Command::new("qemu-img")
        .args(["check", "-q", "o.qcow2"])
        .current_dir(directory.path())
        .status();
    assert!(check.unwrap().success());
}

/// QEMU keeps unknown header extensions; the record names one backing file, and is ignored for
/// others.
#[test]
fn qemu_keeps_the_record_of_a_base() {
    if require("qemu-img").is_none() {
        return;
    }
    for cluster_size in ["512", "4096", "65536"] {
        let directory = tempfile::tempdir().unwrap();
        let run = |words: &[&str]| diskfs_in(directory.path(), words);
        let qemu_img = |words: &[&str]| {
            let output = std::process::Command::new("qemu-img")
                .args(words)
                .current_dir(directory.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
        };
        let base = directory.path().join("base.img");
        fs::write(&base, vec![7; 1 << 20]).unwrap();
        fs::copy(&base, directory.path().join("other.img")).unwrap();
        let words = [
            "create",
            "--cluster-size",
            cluster_size,
            "-b",
            "base.img",
            "-F",
            "raw",
        ];
        run(&[&words[..], &["o.qcow2"]].concat()).bytes();
        qemu_img(&["check", "-q", "o.qcow2"]);
        run(&["info", "o.qcow2"]).bytes();
        qemu_img(&["amend", "-o", "lazy_refcounts=on", "o.qcow2"]);
        fs::write(&base, vec![8; 1 << 20]).unwrap();
        assert_eq!(run(&["info", "o.qcow2"]).failure().0, 6, "{cluster_size}");
        qemu_img(&[
            "rebase",
            "-q",
            "-u",
            "-b",
            "other.img",
            "-F",
            "raw",
            "o.qcow2",
        ]);
        run(&["info", "o.qcow2"]).bytes();
        qemu_img(&["rebase", "-q", "-b", "base.img", "-F", "raw", "o.qcow2"]);
        qemu_img(&["check", "-q", "o.qcow2"]);
        qemu_img(&["compare", "-q", "-F", "raw", "o.qcow2", "other.img"]);
    }
}

#[test]
fn bitmaps_are_managed() {
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "disk.qcow2", "32M"]).bytes();
    run(&["create", "other.qcow2", "32M"]).bytes();
    run(&["create", "raw.img", "32M"]).bytes();
    let added = run(&["bitmap", "add", "--json", "disk.qcow2", "monday"]).json();
    assert_eq!(added["bitmaps"][0]["granularity_bytes"], 65536);
    run(&[
        "bitmap",
        "add",
        "disk.qcow2",
        "week",
        "-g",
        "4k",
        "--disabled",
    ])
    .bytes();
    run(&["bitmap", "add", "other.qcow2", "theirs"]).bytes();
    let list = run(&["bitmap", "list", "disk.qcow2"]).text();
    assert_eq!(list, "enabled\t65536\tmonday\ndisabled\t4096\tweek\n");
    run(&["bitmap", "merge", "disk.qcow2", "week", "monday"]).bytes();
    let words = [
        "bitmap",
        "merge",
        "disk.qcow2",
        "week",
        "theirs",
        "-b",
        "other.qcow2",
    ];
    run(&words).bytes();
    run(&[&words[..], &["-F", "qcow2"]].concat()).bytes();
    run(&["bitmap", "enable", "disk.qcow2", "week"]).bytes();
    run(&["bitmap", "disable", "disk.qcow2", "monday"]).bytes();
    run(&["bitmap", "clear", "disk.qcow2", "week"]).bytes();
    let info = run(&["info", "--json", "disk.qcow2"]).json();
    let list = run(&["bitmap", "list", "--json", "disk.qcow2"]).json();
    assert_eq!(info["image"]["qcow2"]["bitmaps"], list["bitmaps"]);
    assert_eq!(list["bitmaps"][1]["recording"], true);
    let before = fs::read(directory.path().join("disk.qcow2")).unwrap();
    for (words, code) in [
        (&["bitmap", "add", "disk.qcow2", "week"][..], 1),
        (&["bitmap", "add", "disk.qcow2", "x", "-g", "1000"], 2),
        (&["bitmap", "add", "disk.qcow2", ""], 2),
        (&["bitmap", "clear", "disk.qcow2", "no"], 3),
        (&["bitmap", "merge", "disk.qcow2", "week", "no"], 3),
        (
            &[
                "bitmap",
                "merge",
                "disk.qcow2",
                "week",
                "a",
                "-b",
                "raw.img",
            ],
            4,
        ),
        (&["bitmap", "add", "raw.img", "x"], 4),
        (&["bitmap", "add", "disk.qcow2,snapshot=x", "x"], 2),
    ] {
        assert_eq!(run(words).failure().0, code, "{words:?}");
    }
    assert!(fs::read(directory.path().join("disk.qcow2")).unwrap() == before);
    let checkpoint = ["bitmap", "checkpoint", "c", "disk.qcow2", "other.qcow2"];
    assert_eq!(
        run(&[&checkpoint[..], &["raw.img"]].concat()).failure().0,
        4
    );
    assert!(fs::read(directory.path().join("disk.qcow2")).unwrap() == before);
    run(&checkpoint).bytes();
    for image in ["disk.qcow2", "other.qcow2"] {
        let list = run(&["bitmap", "list", image]).text();
        assert!(list.ends_with("enabled\t65536\tc\n"), "{list}");
    }
    run(&["bitmap", "remove", "disk.qcow2", "c"]).bytes();
    run(&["bitmap", "remove", "disk.qcow2", "week"]).bytes();
    run(&["bitmap", "remove", "disk.qcow2", "monday"]).bytes();
    assert_eq!(run(&["bitmap", "list", "disk.qcow2"]).text(), "");
}

#[test]
fn properties_are_changed() {
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "-o", "compat=0.10", "disk.qcow2", "32M"]).bytes();
    run(&["create", "raw.img", "32M"]).bytes();
    for (options, code) in [
        ("lazy_refcounts=on", 2),
        ("backing_file=x", 4),
        ("cluster_size=4k", 4),
        ("no=1", 2),
        ("size=64M,compat=1.1", 2),
        ("size=1M", 2),
    ] {
        let found = run(&["amend", "-o", options, "disk.qcow2"]).failure().0;
        assert_eq!(found, code, "{options}");
    }
    assert_eq!(
        run(&["amend", "-o", "compat=1.1", "raw.img"]).failure().0,
        4
    );
    run(&[
        "amend",
        "-o",
        "compat=1.1,lazy_refcounts=on",
        "-o",
        "refcount_bits=8",
        "disk.qcow2",
    ])
    .bytes();
    run(&["amend", "-o", "size=64M", "disk.qcow2"]).bytes();
    let info = run(&["info", "--json", "disk.qcow2"]).json();
    assert_eq!(info["image"]["virtual_size_bytes"], 64 << 20);
    let qcow2 = &info["image"]["qcow2"];
    assert_eq!(qcow2["refcount_bits"], 8);
    assert_eq!(qcow2["lazy_refcounts"], true);
    let (code, message) = run(&["amend", "-o", "compat=0.10", "disk.qcow2"]).failure();
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("add -o refcount_bits=16"), "{message}");
    run(&["amend", "-o", "compat=0.10,refcount_bits=16", "disk.qcow2"]).bytes();
    let info = run(&["info", "--json", "disk.qcow2"]).json();
    assert_eq!(info["image"]["qcow2"]["refcount_bits"], 16);
}
