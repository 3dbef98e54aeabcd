//! Commit and rebase, compared with QEMU's.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_image::Format;
use diskfs_image::commit::{Overlay, commit};
use diskfs_image::rebase::{Contents, NewBase, rebase};

use crate::encryption::{ENCRYPTED, SECRET, options as keyed};
use crate::model::is_clean;
use crate::tools::{Random, converted, have_qemu, number, run, try_run};

fn scribble(dir: &Path, image: &str, size: u64, r: &mut Random) {
    let mut words = Vec::new();
    for _ in 0..12 {
        let verb = r.one_of(&[
            "write -P 0x11",
            "write -P 0x22",
            "write -z",
            "write -P 0x33",
        ]);
        let at = r.below(size / 512 - 200) * 512;
        let len = (1 + r.below(190)) * 512;
        words.extend(["-c".to_owned(), format!("{verb} {at} {len}")]);
    }
    words.push(image.to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    try_run(dir, "qemu-io", &words);
}

fn create(dir: &Path, name: &str, options: &str, backing: Option<&str>, size: u64) {
    let size = size.to_string();
    let mut words = vec!["create", "-q", "-f", "qcow2", "-o", options];
    words.extend(["--object", SECRET]);
    if let Some(backing) = backing {
        words.extend(["-b", backing, "-F", "qcow2"]);
    }
    words.extend([name, &size]);
    run(dir, "qemu-img", &words);
}

fn info(dir: &Path, image: &str, field: &str) -> String {
    let text = run(dir, "qemu-img", &["info", "-U", "--output=json", image]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value[field].as_str().unwrap_or("none").to_owned()
}

/// Creates a chain of which some images are encrypted.
pub(crate) fn one_chain(seed: u64, encrypted: &[&str]) {
    let mut r = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let options = r.one_of(&[
        "cluster_size=64k",
        "cluster_size=512",
        "cluster_size=64k,extended_l2=on",
        "cluster_size=4k,compat=0.10",
        "cluster_size=2M",
    ]);
    let size = 4 << 20;
    let make = |name: &str, options: &str, backing: Option<&str>, size: u64| {
        let mut options = options.to_owned();
        if encrypted.contains(&name) {
            options = format!("{options},{ENCRYPTED}");
        }
        create(dir, name, &options, backing, size);
    };
    make("a.qcow2", "cluster_size=64k", None, size);
    make("b.qcow2", "cluster_size=4k", Some("a.qcow2"), size);
    let other = r.one_of(&[size, size / 2]);
    make("other.qcow2", "cluster_size=64k", None, other);
    make("top.qcow2", options, Some("b.qcow2"), size);
    for image in ["a.qcow2", "b.qcow2", "top.qcow2"] {
        scribble(dir, image, size, &mut r);
    }
    scribble(dir, "other.qcow2", size / 2, &mut r);
    let disk = converted(dir, "top.qcow2", &[]).unwrap();
    let same = |what: &str| {
        is_clean(dir, "top.qcow2");
        let now = converted(dir, "top.qcow2", &[]).unwrap();
        assert!(now == disk, "seed {seed}: {what}");
    };
    let path = dir.join("top.qcow2");
    let base = |name: &str| NewBase {
        name: name.into(),
        format: Format::Qcow2,
    };
    let to = |base: Option<&NewBase>, contents| {
        rebase(&path, base, contents, &keyed(), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap()
    };
    for name in ["a.qcow2", "other.qcow2", "./other.qcow2", "b.qcow2"] {
        to(Some(&base(name)), Contents::Kept);
        same(name);
        assert_eq!(info(dir, "top.qcow2", "backing-filename"), name);
        assert_eq!(info(dir, "top.qcow2", "backing-filename-format"), "qcow2");
    }
    to(Some(&base("gone.qcow2")), Contents::Trusted);
    assert_eq!(info(dir, "top.qcow2", "backing-filename"), "gone.qcow2");
    to(Some(&base("b.qcow2")), Contents::Trusted);
    same("there and back");
    let stop = &mut |_, _| ControlFlow::Break(());
    let stopped = commit(&path, Overlay::Emptied, &keyed(), stop).unwrap_err();
    assert_eq!(stopped.kind(), diskfs_block::ErrorKind::Cancelled);
    same("a commit that was stopped");
    // If all of the backing file reads as zeroes, there is nothing to interrupt.
    if let Err(stopped) = rebase(&path, None, Contents::Kept, &keyed(), stop) {
        assert_eq!(stopped.kind(), diskfs_block::ErrorKind::Cancelled);
    }
    same("a rebase that was stopped");
    to(Some(&base("b.qcow2")), Contents::Kept);
    same("after all");
    // After a commit the backing file has the disk's contents, and the overlay shows the same.
    let kept = r.one_of(&[Overlay::Kept, Overlay::Emptied]);
    let done = commit(&path, kept, &keyed(), &mut |_, _| ControlFlow::Continue(())).unwrap();
    let emptied = kept == Overlay::Emptied && !encrypted.contains(&"top.qcow2");
    assert_eq!(done.overlay == Overlay::Emptied, emptied);
    same("committed");
    is_clean(dir, "b.qcow2");
    assert!(
        converted(dir, "b.qcow2", &[]).unwrap() == disk,
        "seed {seed}"
    );
    if emptied {
        let map = run(dir, "qemu-img", &["map", "--output=json", "top.qcow2"]);
        assert!(!map.contains("\"depth\": 0, \"present\": true"), "{map}");
    }
    scribble(dir, "top.qcow2", size, &mut r);
    let disk = converted(dir, "top.qcow2", &[]).unwrap();
    to(None, Contents::Kept);
    is_clean(dir, "top.qcow2");
    assert_eq!(info(dir, "top.qcow2", "backing-filename"), "none");
    for image in ["a.qcow2", "b.qcow2"] {
        std::fs::remove_file(dir.join(image)).unwrap();
    }
    assert!(
        converted(dir, "top.qcow2", &[]).unwrap() == disk,
        "seed {seed}: flat"
    );
}

/// Ranges that read as zeroes and would change are stored as zero clusters, not as data.
fn zeroes_stay_flags(options: &str, other_size: u64) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let size = 8 << 20;
    create(dir, "a.qcow2", "cluster_size=64k", None, size);
    create(
        dir,
        "b.qcow2",
        "cluster_size=64k",
        Some("a.qcow2"),
        size / 2,
    );
    create(dir, "other.qcow2", "cluster_size=64k", None, other_size);
    create(dir, "top.qcow2", options, Some("b.qcow2"), size);
    let io = |image: &str, words: &[&str]| {
        let words: Vec<_> = words.iter().flat_map(|word| ["-c", word]).collect();
        run(dir, "qemu-io", &[&words[..], &[image]].concat());
    };
    // Zeroes over data, over holes, and past the end of b.
    io("a.qcow2", &["write -P 1 0 2M"]);
    io("b.qcow2", &["write -z 0 2M", "write -P 2 1088k 4k"]);
    io("other.qcow2", &[&format!("write -P 3 0 {other_size}")]);
    let disk = converted(dir, "top.qcow2", &[]).unwrap();
    let base = NewBase {
        name: "other.qcow2".into(),
        format: Format::Qcow2,
    };
    let path = dir.join("top.qcow2");
    let opening = keyed();
    rebase(&path, Some(&base), Contents::Kept, &opening, &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap();
    is_clean(dir, "top.qcow2");
    assert!(
        converted(dir, "top.qcow2", &[]).unwrap() == disk,
        "{options}"
    );
    let map = run(dir, "qemu-img", &["map", "--output=json", "top.qcow2"]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let runs = map.as_array().unwrap().iter();
    let stored: u64 = runs
        .filter(|run| run["depth"] == 0 && run["data"] == true)
        .map(|run| run["length"].as_u64().unwrap())
        .sum();
    // Only the cluster with the 4 KiB of data is allocated.
    assert!(stored <= 2 << 20 && stored > 0, "{options}: {map}");
    if !options.contains("2M") {
        assert!(stored <= 64 << 10, "{options}: {map}");
    }
}

#[test]
fn a_rebase_keeps_zeroes_as_flags() {
    if !have_qemu() {
        return;
    }
    for options in [
        "cluster_size=512",
        "cluster_size=64k",
        "cluster_size=64k,extended_l2=on",
        "cluster_size=2M",
    ] {
        zeroes_stay_flags(options, 8 << 20);
    }
    zeroes_stay_flags("cluster_size=64k", (3 << 20) + 5 * 512);
}

#[test]
fn overlays_are_rebased_and_committed() {
    if !have_qemu() {
        return;
    }
    let seed = number("DISKFS_QEMU_SEED", 7000);
    let rounds = number("DISKFS_QEMU_ROUNDS", 60).div_ceil(10);
    for round in 0..rounds {
        one_chain(seed + round, &[]);
    }
}

#[test]
fn what_cant_be_committed_or_rebased_is_left_alone() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    create(dir, "a.qcow2", "cluster_size=64k", None, 1 << 20);
    create(
        dir,
        "top.qcow2",
        "cluster_size=64k",
        Some("a.qcow2"),
        2 << 20,
    );
    run(dir, "qemu-io", &["-c", "write -P 7 0 64k", "top.qcow2"]);
    let before = std::fs::read(dir.join("top.qcow2")).unwrap();
    let below = std::fs::read(dir.join("a.qcow2")).unwrap();
    let path = dir.join("top.qcow2");
    let options = keyed();
    let commit = |path: &Path| {
        commit(path, Overlay::Emptied, &options, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap_err()
    };
    let e = commit(&path);
    assert!(e.to_string().contains("smaller"), "{e}");
    let e = commit(&dir.join("a.qcow2"));
    assert!(e.to_string().contains("missing backing file"), "{e}");
    let to = |name: &str, contents| {
        let base = NewBase {
            name: name.into(),
            format: Format::Qcow2,
        };
        rebase(&path, Some(&base), contents, &options, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap_err()
    };
    assert!(
        to("none.qcow2", Contents::Kept)
            .to_string()
            .contains("none.qcow2")
    );
    assert!(
        to("top.qcow2", Contents::Kept)
            .to_string()
            .contains("in use")
    );
    let long = "x".repeat(1030);
    assert!(
        to(&long, Contents::Trusted).to_string().contains("name"),
        "{long}"
    );
    let reader = diskfs_image::Image::open(&dir.join("a.qcow2"), &options).unwrap();
    let e = commit(&path);
    assert!(
        e.to_string().contains("in use") || e.to_string().contains("smaller"),
        "{e}"
    );
    drop(reader);
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(std::fs::read(dir.join("a.qcow2")).unwrap() == below);
}
