//! Bitmaps that are added, changed and removed alternately by QEMU and by us.

use std::path::Path;

use diskfs_image::bitmaps::{self, MergeSource, NewBitmap, Recording};
use diskfs_image::{BitmapState, Image, OpenOptions};
use serde_json::Value;

use crate::bitmaps::digests;
use crate::model::{is_clean, open};
use crate::tools::{Random, have_qemu, number, run, try_run};

const SIZE: u64 = 8 << 20;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One line for each bitmap: name, granularity, recording, consistent.
pub(crate) type Listed = Vec<(String, u64, bool, bool)>;

pub(crate) fn theirs(dir: &Path, image: &str) -> Listed {
    let text = run(dir, "qemu-img", &["info", "--output=json", image]);
    let info: Value = serde_json::from_str(&text).unwrap();
    let listed = info["format-specific"]["data"]["bitmaps"]
        .as_array()
        .cloned();
    let has = |bitmap: &Value, flag: &str| {
        bitmap["flags"]
            .as_array()
            .unwrap()
            .contains(&Value::from(flag))
    };
    listed
        .unwrap_or_default()
        .iter()
        .map(|bitmap| {
            (
                bitmap["name"].as_str().unwrap().to_owned(),
                bitmap["granularity"].as_u64().unwrap(),
                has(bitmap, "auto"),
                !has(bitmap, "in-use"),
            )
        })
        .collect()
}

pub(crate) fn ours(dir: &Path, image: &str) -> Listed {
    let listed = bitmaps::list(&dir.join(image), &OpenOptions::default()).unwrap();
    listed
        .into_iter()
        .map(|it| {
            let consistent = it.state == BitmapState::Consistent;
            (it.name, it.granularity_bytes, it.recording, consistent)
        })
        .collect()
}

/// A change of bitmaps, as either program makes it.
#[derive(Debug, Clone, Copy)]
enum Change {
    Add(&'static str, Option<u64>, bool),
    Remove(&'static str),
    Clear(&'static str),
    Set(&'static str, bool),
    Merge(&'static str, &'static str),
    /// Merges a bitmap of the other image.
    MergeFrom(&'static str, &'static str),
}

impl Change {
    fn random(r: &mut Random) -> Self {
        let name = r.one_of(&NAMES);
        match r.below(9) {
            0..3 => {
                let granularity = r.one_of(&[None, Some(512), Some(4096), Some(1 << 17)]);
                Self::Add(name, granularity, !r.one_in(3))
            }
            3 => Self::Remove(name),
            4 => Self::Clear(name),
            5 => Self::Set(name, r.one_in(2)),
            6 => Self::MergeFrom(name, r.one_of(&NAMES)),
            _ => Self::Merge(name, r.one_of(&NAMES)),
        }
    }

    fn by_us(self, dir: &Path, image: &str, other: &str) -> bool {
        let path = dir.join(image);
        let options = OpenOptions::default();
        let recording = |on| {
            if on {
                Recording::Enabled
            } else {
                Recording::Disabled
            }
        };
        let other = dir.join(other);
        let merge = |name, source: &str, image| {
            let bitmap = source;
            bitmaps::merge(&path, name, MergeSource { bitmap, image }, &options)
        };
        let done = match self {
            Self::Add(name, granularity_bytes, on) => {
                let new = NewBitmap {
                    granularity_bytes,
                    recording: recording(on),
                };
                bitmaps::add(&path, name, new, &options).map(|_| ())
            }
            Self::Remove(name) => bitmaps::remove(&path, name, &options),
            Self::Clear(name) => bitmaps::clear(&path, name, &options),
            Self::Set(name, on) => bitmaps::set_recording(&path, name, recording(on), &options),
            Self::Merge(name, source) => merge(name, source, None),
            Self::MergeFrom(name, source) => merge(name, source, Some((&other, &options))),
        };
        done.is_ok()
    }

    fn by_qemu(self, dir: &Path, image: &str, other: &str) -> bool {
        let granularity;
        let words = match self {
            Self::Add(name, bytes, on) => {
                let mut words = vec!["--add", image, name];
                if let Some(bytes) = bytes {
                    granularity = bytes.to_string();
                    words.extend(["-g", &granularity]);
                }
                if !on {
                    words.push("--disable");
                }
                words
            }
            Self::Remove(name) => vec!["--remove", image, name],
            Self::Clear(name) => vec!["--clear", image, name],
            Self::Set(name, true) => vec!["--enable", image, name],
            Self::Set(name, false) => vec!["--disable", image, name],
            Self::Merge(name, source) => vec!["--merge", source, image, name],
            Self::MergeFrom(name, source) => {
                vec!["--merge", source, "-b", other, "-F", "qcow2", image, name]
            }
        };
        let words = [&["bitmap"][..], &words].concat();
        try_run(dir, "qemu-img", &words).status.success()
    }
}

/// Makes the same changes to two images, to one of them now by us and now by QEMU, to the other by
/// QEMU alone.
fn one_image(seed: u64, options: &str, is_overlay: bool) {
    let mut r = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let size = SIZE.to_string();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "base.raw", "2M"],
    );
    let backing: &[&str] = if is_overlay {
        &["-b", "base.raw", "-F", "raw"]
    } else {
        &[]
    };
    for image in ["ours.qcow2", "theirs.qcow2", "other.qcow2"] {
        let create = ["create", "-q", "-f", "qcow2", "-o", options];
        run(
            dir,
            "qemu-img",
            &[&create[..], backing, &[image, &size]].concat(),
        );
    }
    run(
        dir,
        "qemu-img",
        &["bitmap", "--add", "-g", "1024", "other.qcow2", "a"],
    );
    run(
        dir,
        "qemu-io",
        &["-c", "write 1M 3k", "-c", "write 7M 1M", "other.qcow2"],
    );
    for step in 0..14_u64 {
        let change = Change::random(&mut r);
        let what = format!("seed {seed}, step {step}: {change:?}");
        let expected = change.by_qemu(dir, "theirs.qcow2", "other.qcow2");
        let done = if r.one_in(3) {
            change.by_qemu(dir, "ours.qcow2", "other.qcow2")
        } else {
            change.by_us(dir, "ours.qcow2", "other.qcow2")
        };
        assert_eq!(done, expected, "{what}");
        let listed = theirs(dir, "theirs.qcow2");
        assert_eq!(theirs(dir, "ours.qcow2"), listed, "{what}");
        assert_eq!(ours(dir, "ours.qcow2"), listed, "{what}");
        is_clean(dir, "ours.qcow2");
        let at = (r.below(SIZE / 512 - 200) * 512).to_string();
        let write = format!("write {at} 64k");
        for image in ["ours.qcow2", "theirs.qcow2"] {
            run(dir, "qemu-io", &["-c", &write, image]);
        }
        if step % 4 == 3 {
            let names: Vec<&str> = listed.iter().map(|(name, ..)| name.as_str()).collect();
            assert_eq!(
                digests(dir, "ours.qcow2", &names),
                digests(dir, "theirs.qcow2", &names),
                "{what}"
            );
        }
    }
    let image = Image::open(&dir.join("ours.qcow2"), &OpenOptions::default()).unwrap();
    assert!(image.check().unwrap().unwrap().is_clean());
}

#[test]
fn bitmaps_in_turns_with_qemu() {
    if !have_qemu() {
        return;
    }
    let seed = number("DISKFS_QEMU_SEED", 5000);
    let rounds = number("DISKFS_QEMU_ROUNDS", 40).div_ceil(10);
    let choices = [
        ("cluster_size=64k", true),
        ("cluster_size=512", false),
        ("cluster_size=4k,extended_l2=off,refcount_bits=64", true),
        ("cluster_size=2M", false),
        ("cluster_size=64k,extended_l2=on,lazy_refcounts=on", false),
    ];
    for (round, (options, is_overlay)) in (0..rounds).zip(choices.iter().cycle()) {
        one_image(seed + round, options, *is_overlay);
    }
}

/// A bitmap that was in use when its writer was killed can only be removed, as in QEMU.
#[test]
fn an_inconsistent_bitmap_can_only_be_removed() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "live.qcow2", "8M"],
    );
    run(dir, "qemu-img", &["bitmap", "--add", "live.qcow2", "a"]);
    run(dir, "qemu-img", &["bitmap", "--add", "live.qcow2", "b"]);
    let image = open(dir, "live.qcow2");
    image.device().write_at(0, &[1; 512]).unwrap();
    std::fs::copy(dir.join("live.qcow2"), dir.join("disk.qcow2")).unwrap();
    image.close().unwrap();
    assert!(
        ours(dir, "disk.qcow2")
            .iter()
            .all(|(.., consistent)| !consistent)
    );
    let before = std::fs::read(dir.join("disk.qcow2")).unwrap();
    for change in [
        Change::Clear("a"),
        Change::Set("a", false),
        Change::Set("a", true),
        Change::Merge("a", "b"),
        Change::Add("a", None, true),
    ] {
        assert!(!change.by_us(dir, "disk.qcow2", ""), "{change:?}");
        assert!(!change.by_qemu(dir, "disk.qcow2", ""), "{change:?}");
    }
    assert!(std::fs::read(dir.join("disk.qcow2")).unwrap() == before);
    assert!(Change::Remove("a").by_us(dir, "disk.qcow2", ""));
    assert!(Change::Remove("b").by_qemu(dir, "disk.qcow2", ""));
    assert_eq!(theirs(dir, "disk.qcow2"), []);
    assert!(Change::Add("a", None, true).by_us(dir, "disk.qcow2", ""));
    assert_eq!(theirs(dir, "disk.qcow2"), ours(dir, "disk.qcow2"));
    is_clean(dir, "disk.qcow2");
}

/// The limits are QEMU's.
#[test]
fn limits_of_new_bitmaps() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let long = "n".repeat(1023);
    let longer = "n".repeat(1024);
    for (compat, size, name, granularity) in [
        ("1.1", "1M", long.as_str(), "64k"),
        ("1.1", "1M", &longer, "64k"),
        ("1.1", "1M", "", "64k"),
        ("1.1", "0", "a", "64k"),
        ("1.1", "1000", "a", "512"),
        ("1.1", "1M", "a", "256"),
        ("1.1", "1M", "a", "2G"),
        ("1.1", "1M", "a", "4G"),
        ("1.1", "2T", "a", "512"),
        ("1.1", "2049G", "a", "512"),
        ("0.10", "1M", "a", "64k"),
    ] {
        let clusters = if size.len() > 4 || size == "2T" {
            "2M"
        } else {
            "64k"
        };
        let options = format!("compat={compat},cluster_size={clusters}");
        let mut done = Vec::new();
        for image in ["theirs.qcow2", "ours.qcow2"] {
            let words = ["create", "-q", "-f", "qcow2", "-o", &options, image, size];
            run(dir, "qemu-img", &words);
        }
        let words = ["bitmap", "--add", "-g", granularity, "theirs.qcow2", name];
        done.push(try_run(dir, "qemu-img", &words).status.success());
        let bytes = match granularity.strip_suffix(['k', 'G']) {
            None => granularity.parse().unwrap(),
            Some(n) if granularity.ends_with('k') => n.parse::<u64>().unwrap() << 10,
            Some(n) => n.parse::<u64>().unwrap() << 30,
        };
        let new = NewBitmap {
            granularity_bytes: Some(bytes),
            ..NewBitmap::default()
        };
        let added = bitmaps::add(&dir.join("ours.qcow2"), name, new, &OpenOptions::default());
        done.push(added.is_ok());
        assert_eq!(done[0], done[1], "{compat} {size} {granularity}: {added:?}");
        if done[0] {
            assert_eq!(theirs(dir, "ours.qcow2"), theirs(dir, "theirs.qcow2"));
            is_clean(dir, "ours.qcow2");
        }
    }
}

/// All images get the bitmap, or none; what a crash left is completed.
#[test]
fn checkpoints_of_several_images() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let options = OpenOptions::default();
    let images = ["a.qcow2", "b.qcow2", "c.qcow2"];
    let paths = images.map(|image| dir.join(image));
    let with_options: Vec<_> = paths
        .iter()
        .map(|path| (path.as_path(), &options))
        .collect();
    let checkpoint = |name| bitmaps::checkpoint(&with_options, name, NewBitmap::default());
    let names = |image| {
        ours(dir, image)
            .into_iter()
            .map(|it| it.0)
            .collect::<Vec<_>>()
    };
    for image in images {
        run(
            dir,
            "qemu-img",
            &["create", "-q", "-f", "qcow2", image, "8M"],
        );
    }
    checkpoint("one").unwrap();
    // As if a crash had left the bitmap in one image.
    bitmaps::add(&paths[1], "two", NewBitmap::default(), &options).unwrap();
    checkpoint("two").unwrap();
    for image in images {
        assert_eq!(names(image), ["one", "two"]);
        assert_eq!(ours(dir, image), theirs(dir, image));
        is_clean(dir, image);
    }
    let before = paths.each_ref().map(|path| std::fs::read(path).unwrap());
    // With marks in the second image, it would be of another time.
    run(dir, "qemu-img", &["bitmap", "--add", "b.qcow2", "three"]);
    run(dir, "qemu-io", &["-c", "write 0 64k", "b.qcow2"]);
    let error = checkpoint("three").unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(error.path(), Some(paths[1].as_path()));
    run(dir, "qemu-img", &["bitmap", "--remove", "b.qcow2", "three"]);
    assert_eq!(names("a.qcow2"), ["one", "two"]);
    is_clean(dir, "a.qcow2");
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "c.qcow2", "8M"],
    );
    assert!(checkpoint("four").is_err());
    assert_eq!(names("a.qcow2"), ["one", "two"]);
    assert_eq!(names("b.qcow2"), ["one", "two"]);
    is_clean(dir, "a.qcow2");
    assert!(std::fs::read(&paths[0]).unwrap() == before[0]);
}
