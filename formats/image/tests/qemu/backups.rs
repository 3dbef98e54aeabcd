//! Incremental backups of disks that QEMU and we write in turns.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockRead, ErrorKind, ExtentKind};
use diskfs_image::bitmaps::{self, MarkedDisk, NewBitmap, Recording};
use diskfs_image::convert::{ConvertOptions, Packing, Scope, convert_verified};
use diskfs_image::create::{BackingCheck, NewBacking, NewImage, NewQcow2};
use diskfs_image::{Format, Gate, Image, OpenOptions};

use crate::model::{content, is_clean, open};
use crate::tools::{Random, converted, have_qemu, number, run, try_run};

const DISK: &str = "disk.qcow2";
const MIB: u64 = 1 << 20;

fn read_only(dir: &Path, name: &str) -> Image {
    Image::open(&dir.join(name), &OpenOptions::default()).unwrap()
}

/// Makes a backup, in full without a previous one.
fn back_up(dir: &Path, new: &str, previous: Option<(&str, &str)>, is_packed: bool) {
    let backing = previous.map(|(_, file)| NewBacking {
        name: file.into(),
        format: Format::Qcow2,
        check: BackingCheck::OpenUnrecorded(Gate::default()),
    });
    let options = ConvertOptions {
        image: NewImage::Qcow2(Box::new(NewQcow2 {
            backing,
            ..NewQcow2::default()
        })),
        packing: is_packed.then_some(Packing { level: None }),
        scope: match previous {
            Some(_) => Scope::Stored,
            None => Scope::Whole,
        },
        ..ConvertOptions::default()
    };
    let image = read_only(dir, DISK);
    let disk = image.device();
    let marked = previous.map(|(bitmap, file)| {
        let old_bytes = read_only(dir, file).device().size_bytes();
        let marked = MarkedDisk::new(&image, bitmap).unwrap();
        (marked.grown_from(old_bytes), old_bytes)
    });
    let from: &dyn BlockRead = match &marked {
        Some((marked, _)) => marked,
        None => &*disk,
    };
    let mut go_on = |_| ControlFlow::Continue(());
    convert_verified(from, &dir.join(new), &options, &mut go_on).unwrap();
    if let Some((marked, old_bytes)) = &marked {
        contains_what_is_marked(dir, new, marked, *old_bytes);
    }
}

/// Fails unless a backup stores the clusters with marks, and no others.
fn contains_what_is_marked(dir: &Path, name: &str, marked: &MarkedDisk, old_bytes: u64) {
    const CLUSTER: u64 = 64 << 10;
    let backup = read_only(dir, name).device();
    let is_stored = |disk: &dyn BlockRead, start: u64| {
        let end = (start + CLUSTER).min(marked.size_bytes());
        let mut at = start;
        while at < end {
            let extent = disk.stored_at(at).unwrap();
            if extent.kind != ExtentKind::Unallocated {
                return true;
            }
            at += extent.len_bytes;
        }
        false
    };
    let mut bytes = 0;
    for start in (0..marked.size_bytes()).step_by(64 << 10) {
        let expected = is_stored(marked, start);
        assert_eq!(is_stored(&*backup, start), expected, "{name} at {start:#x}");
        bytes += if expected { CLUSTER } else { 0 };
    }
    let marked_bytes = marked.marked_bytes().unwrap();
    assert!(marked_bytes <= bytes, "{marked_bytes} of {bytes}");
    let is_grown = old_bytes < marked.size_bytes();
    assert!(is_grown || (marked_bytes == 0) == (bytes == 0));
}

/// Writes to a few places of the disk, by us or by QEMU.
fn write(dir: &Path, size: u64, r: &mut Random) {
    let is_ours = r.one_in(2);
    let image = is_ours.then(|| open(dir, DISK));
    let mut words: Vec<String> = vec!["-f".into(), "qcow2".into()];
    for _ in 0..=r.below(4) {
        let unit = r.one_of(&[512, 4096, 64 << 10, MIB]);
        let at = r.below(size / 512) * 512;
        let len = (unit * (1 + r.below(3))).min(size - at);
        let what = r.below(10);
        if let Some(image) = &image {
            let disk = image.device();
            match what {
                0..6 => disk.write_at(at, &content(len, r.next())).unwrap(),
                6..8 => disk.write_zeroes(at, len).unwrap(),
                _ => disk.discard(at, len).unwrap(),
            }
        } else {
            let range = format!("{at} {len}");
            words.push("-c".into());
            words.push(match what {
                0..6 => format!("write -P {} {range}", 1 + r.below(255)),
                6..8 => format!("write -z {range}"),
                _ => format!("discard {range}"),
            });
        }
    }
    if let Some(image) = image {
        image.close().unwrap();
        return;
    }
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push(DISK);
    run(dir, "qemu-io", &words);
}

/// Resizes the disk, at most once between two backups: QEMU does not mark what it drops at the end.
fn resize(dir: &Path, size: u64, r: &mut Random) -> u64 {
    let new = (MIB + r.below(7 * MIB)) / 512 * 512;
    let new_text = new.to_string();
    let shrink: &[&str] = if new < size { &["--shrink"] } else { &[] };
    let words = [&["resize", "-q"], shrink, &[DISK, &new_text]].concat();
    run(dir, "qemu-img", &words);
    new
}

fn add_bitmap(dir: &Path, name: &str, r: &mut Random) {
    let granularity = r.one_of(&[None, Some(512), Some(4096), Some(1 << 20)]);
    if r.one_in(2) {
        let new = NewBitmap {
            granularity_bytes: granularity,
            recording: Recording::Enabled,
        };
        bitmaps::add(&dir.join(DISK), name, new, &OpenOptions::default()).unwrap();
        return;
    }
    let granularity = granularity.unwrap_or(64 << 10).to_string();
    let words = ["bitmap", "--add", "-g", &granularity, DISK, name];
    run(dir, "qemu-img", &words);
}

/// Backs up a disk several times, and checks the disk of each backup at once and at the end.
fn rotation(seed: u64, options: &str, is_overlay: bool) {
    let mut r = Random::new(seed);
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let mut size = 4 * MIB + 512 * r.below(100);
    let size_text = size.to_string();
    let mut words = vec!["create", "-q", "-f", "qcow2", "-o", options];
    if is_overlay {
        run(
            dir,
            "qemu-img",
            &["create", "-q", "-f", "raw", "base", "8M"],
        );
        run(
            dir,
            "qemu-io",
            &["-f", "raw", "-c", "write -P 7 0 8M", "base"],
        );
        words.extend(["-b", "base", "-F", "raw"]);
    }
    words.extend([DISK, &size_text]);
    run(dir, "qemu-img", &words);
    let mut backups: Vec<(String, Vec<u8>)> = Vec::new();
    for number in 0..6 {
        if number > 0 && r.one_in(3) {
            size = resize(dir, size, &mut r);
        }
        for _ in 0..r.below(4) {
            write(dir, size, &mut r);
        }
        add_bitmap(dir, &format!("b{number}"), &mut r);
        let name = format!("{number}.qcow2");
        let bitmap = format!("b{}", number - 1);
        let previous = backups.last().map(|(last, _)| (&*bitmap, &**last));
        back_up(dir, &name, previous, r.one_in(3));
        is_clean(dir, &name);
        run(dir, "qemu-img", &["compare", &name, DISK]);
        if number > 0 {
            let options = OpenOptions::default();
            bitmaps::remove(&dir.join(DISK), &bitmap, &options).unwrap();
        }
        let now = converted(dir, DISK, &["-f", "qcow2"]).unwrap();
        backups.push((name, now));
    }
    for (name, bytes) in &backups {
        let now = converted(dir, name, &["-f", "qcow2"]).unwrap();
        assert!(
            now == *bytes,
            "seed {seed}: {name} in {}",
            directory.keep().display()
        );
    }
}

#[test]
fn each_backup_is_the_disk_of_its_time() {
    if !have_qemu() {
        return;
    }
    let seed = number("DISKFS_QEMU_SEED", 6000);
    let rounds = number("DISKFS_QEMU_ROUNDS", 40).div_ceil(10);
    let choices = [
        ("cluster_size=64k", false),
        ("cluster_size=64k", true),
        ("cluster_size=4k", false),
        ("cluster_size=64k,extended_l2=on", true),
        ("cluster_size=2M", false),
    ];
    for (round, (options, is_overlay)) in (0..rounds).zip(choices.iter().cycle()) {
        rotation(seed + round, options, *is_overlay);
    }
}

/// Without a previous backup, zeroes are stored as such: they hide the one that is added later.
#[test]
fn an_increment_gets_its_backing_file_later() {
    if !have_qemu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", DISK, "4M"],
    );
    run(dir, "qemu-io", &["-c", "write -P 1 0 4M", DISK]);
    let options = OpenOptions::default();
    bitmaps::add(&dir.join(DISK), "b", NewBitmap::default(), &options).unwrap();
    back_up(dir, "full.qcow2", None, false);
    run(
        dir,
        "qemu-io",
        &["-c", "write -z 1M 1M", "-c", "write -P 2 3M 64k", DISK],
    );
    let image = read_only(dir, DISK);
    let marked = MarkedDisk::new(&image, "b").unwrap();
    assert_eq!(marked.marked_bytes().unwrap(), MIB + (64 << 10));
    let stored = ConvertOptions {
        scope: Scope::Stored,
        ..ConvertOptions::default()
    };
    let mut go_on = |_| ControlFlow::Continue(());
    diskfs_image::convert(&marked, &dir.join("inc.qcow2"), &stored, &mut go_on).unwrap();
    drop((marked, image));
    let rebase = [
        "rebase",
        "-u",
        "-b",
        "full.qcow2",
        "-F",
        "qcow2",
        "inc.qcow2",
    ];
    run(dir, "qemu-img", &rebase);
    run(dir, "qemu-img", &["compare", "inc.qcow2", DISK]);
    let raw = ConvertOptions {
        image: NewImage::Raw,
        ..stored
    };
    let image = read_only(dir, DISK);
    let marked = MarkedDisk::new(&image, "b").unwrap();
    let refused = diskfs_image::convert(&marked, &dir.join("raw"), &raw, &mut go_on);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

/// A bitmap that may have missed writes is refused by name.
#[test]
fn bitmaps_that_may_have_missed_writes() {
    if !have_qemu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", DISK, "4M"],
    );
    for (name, more) in [("on", &[][..]), ("off", &["--disable"])] {
        let words = [&["bitmap", "--add"], more, &[DISK, name]].concat();
        run(dir, "qemu-img", &words);
    }
    let refused = |dir: &Path, file: &str, name: &str| {
        let error = MarkedDisk::new(&read_only(dir, file), name).unwrap_err();
        assert!(error.next_step().is_some(), "{error}");
        (error.kind(), error.to_string())
    };
    let (kind, said) = refused(dir, DISK, "off");
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(said.contains("bitmap `off` is disabled"), "{said}");
    let (kind, said) = refused(dir, DISK, "none");
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(said.contains("`none`"), "{said}");
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "raw.img", "4M"],
    );
    let raw = read_only(dir, "raw.img");
    assert_eq!(
        MarkedDisk::new(&raw, "on").unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    // A copy of an image that is in use.
    let image = open(dir, DISK);
    image.device().write_at(0, &[1; 512]).unwrap();
    std::fs::copy(dir.join(DISK), dir.join("copy.qcow2")).unwrap();
    image.close().unwrap();
    let (kind, said) = refused(dir, "copy.qcow2", "on");
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(said.contains("bitmap `on` is inconsistent"), "{said}");
    // A program without support for bitmaps clears the bit 0 of the autoclear features.
    let mut bytes = std::fs::read(dir.join(DISK)).unwrap();
    bytes[95] &= !1;
    std::fs::write(dir.join("void.qcow2"), bytes).unwrap();
    let (kind, said) = refused(dir, "void.qcow2", "on");
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(said.contains("bitmap `on` is void"), "{said}");
    assert!(try_run(dir, "qemu-img", &["check", DISK]).status.success());
}
