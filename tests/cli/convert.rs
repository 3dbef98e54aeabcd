//! convert, compare, map and measure: what a caller sees, compared with `qemu-img`.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use diskfs_fixtures::{image, pattern, require, run};
use serde_json::{Value, json};

use crate::{Run, diskfs_in};

const MIB: usize = 1 << 20;

/// Writes a raw disk with data, zeroes that are stored, and a hole.
fn write_disk(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.set_len(24 << 20).unwrap();
    file.write_all_at(&pattern("disk", 3 * MIB), 1 << 20)
        .unwrap();
    file.write_all_at(&vec![0; 2 * MIB], 8 << 20).unwrap();
    file.write_all_at(b"end", (24 << 20) - 3).unwrap();
}

fn qemu_img(directory: &Path, words: &[&str]) -> String {
    let mut command = diskfs_fixtures::command("qemu-img");
    let output = command.args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_copy_is_the_same_disk_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    let copies: &[(&str, &[&str])] = &[
        ("plain.qcow2", &[]),
        ("zlib.qcow2", &["-c", "--level", "1"]),
        (
            "zstd.qcow2",
            &["-c", "-o", "compression_type=zstd", "-m", "3"],
        ),
        (
            "small",
            &["-O", "qcow2", "-o", "cluster_size=4k", "--verify"],
        ),
        ("falloc.qcow2", &["-o", "preallocation=falloc"]),
        ("sparse.raw", &["-S", "64k", "--verify"]),
        ("full.raw", &["-S", "0"]),
        ("open.raw", &["--no-sandbox"]),
        ("sparse.vmdk", &["--verify"]),
        (
            "stream.vmdk",
            &["-c", "--level", "9", "-o", "subformat=streamOptimized"],
        ),
        ("dynamic.vhd", &["--verify"]),
        ("dynamic.vdi", &["--verify"]),
        ("static.vdi", &["-o", "static=on"]),
        ("dynamic.vhdx", &["--verify", "-o", "block_size=1M"]),
        ("fixed.vhdx", &["-o", "subformat=fixed,log_size=2M"]),
        (
            "fixed.vhd",
            &["--verify", "-o", "subformat=fixed,force_size=on"],
        ),
    ];
    for (name, options) in copies {
        let words = [&["convert", "--json"], *options, &["disk.raw", name]].concat();
        let document = diskfs(&words).json();
        let size = document["virtual_size_bytes"].as_u64().unwrap();
        if *name == "dynamic.vhd" {
            assert!((24 << 20..26 << 20).contains(&size), "{size}");
        } else {
            assert_eq!(size, 24 << 20, "{name}");
        }
        let blocks = fs::metadata(dir.join(name)).unwrap().blocks();
        assert_eq!(document["allocated_bytes"], blocks * 512, "{name}");
        let format = document["format"].as_str().unwrap();
        let copy = format!("{name},format={format}");
        assert_eq!(diskfs(&["compare", "disk.raw", &copy]).text(), "");
        if require("qemu-img").is_some() {
            let theirs = if format == "vhd" { "vpc" } else { format };
            qemu_img(
                dir,
                &["compare", "-f", "raw", "-F", theirs, "disk.raw", name],
            );
        }
    }
    let allocated = |name: &str| fs::metadata(dir.join(name)).unwrap().blocks() * 512;
    assert!(allocated("full.raw") >= 24 << 20);
    assert!(allocated("sparse.raw") < 4 << 20);
    assert!(allocated("zstd.qcow2") < allocated("plain.qcow2"));
}

#[test]
fn an_existing_file_is_kept_and_nothing_is_left_of_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    fs::write(dir.join("there.qcow2"), "mine").unwrap();
    let names = || {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for (words, said) in [
        (&["convert", "disk.raw", "there.qcow2"][..], "exists"),
        (&["convert", "--force", "disk.raw", "disk.raw"], "is read"),
        (
            &["convert", "-c", "disk.raw", "x.raw", "-O", "raw"],
            "compression",
        ),
        (
            &["convert", "-c", "--level", "99", "disk.raw", "x.qcow2"],
            "invalid level 99",
        ),
        (
            &["convert", "-S", "3000", "disk.raw", "x.raw"],
            "power of two",
        ),
        (
            &["convert", "-o", "size=1G", "disk.raw", "x.qcow2"],
            "size of the source",
        ),
        (&["convert", "missing.raw", "x.qcow2"], "missing.raw"),
        (&["convert", "disk.raw", "no/such/x.qcow2"], "no/such"),
        (&["convert", "-n", "disk.raw", "x.raw"], "x.raw"),
        (
            &["convert", "disk.raw", "x.qed"],
            "format qed is not supported",
        ),
        (
            &[
                "convert",
                "-o",
                "subformat=monolithicFlat",
                "disk.raw",
                "x.vmdk",
            ],
            "subformat monolithicFlat is not supported",
        ),
        (
            &["convert", "-o", "cluster_size=4k", "disk.raw", "x.vmdk"],
            "option cluster_size is not supported for vmdk",
        ),
        (
            &["convert", "-o", "hwversion=10", "disk.raw", "x.qcow2"],
            "option hwversion is not supported for qcow2",
        ),
        (&["convert", "-c", "disk.raw", "x.vmdk"], "compression"),
        (
            &["convert", "-o", "zeroed_grain=on", "disk.raw", "x.vmdk"],
            "option zeroed_grain is not supported",
        ),
        (&["create", "x.dmg", "1M"], "creating images of format dmg"),
        (
            &["measure", "-O", "vmdk", "disk.raw"],
            "format vmdk is not supported",
        ),
        (
            &[
                "convert", "-B", "no.raw", "-F", "raw", "disk.raw", "x.qcow2",
            ],
            "no.raw",
        ),
    ] {
        let (_, message) = diskfs(words).failure();
        assert!(message.contains(said), "{words:?}: {message}");
        assert_eq!(names(), before, "{words:?}");
    }
    assert_eq!(fs::read(dir.join("there.qcow2")).unwrap(), b"mine");
    diskfs(&["convert", "--force", "disk.raw", "there.qcow2"]).text();
    diskfs(&["compare", "disk.raw", "there.qcow2"]).text();
}

#[test]
fn an_overlay_keeps_its_backing_file() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("base.raw"));
    diskfs(&["create", "-b", "base.raw", "-F", "raw", "top.qcow2"]).text();
    if require("qemu-img").is_none() {
        return;
    }
    let top = dir.join("top.qcow2");
    let words = ["-c", "write -P 5 1M 64k"].map(Path::new);
    run("qemu-io", words.into_iter().chain([top.as_path()])).unwrap();
    let words = [
        "convert",
        "-B",
        "base.raw",
        "-F",
        "raw",
        "top.qcow2",
        "copy.qcow2",
    ];
    diskfs(&words).text();
    assert!(fs::metadata(dir.join("copy.qcow2")).unwrap().len() < 1 << 20);
    qemu_img(dir, &["compare", "top.qcow2", "copy.qcow2"]);
    qemu_img(dir, &["check", "copy.qcow2"]);
    let info: Value =
        serde_json::from_str(&qemu_img(dir, &["info", "--output=json", "copy.qcow2"])).unwrap();
    assert_eq!(info["backing-filename"], "base.raw");
    // Without -B everything is in the copy.
    diskfs(&["convert", "top.qcow2", "all.qcow2"]).text();
    fs::remove_file(dir.join("base.raw")).unwrap();
    diskfs(&["info", "all.qcow2"]).text();
}

#[test]
fn a_volume_and_a_snapshot_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    fs::copy(image("demo.qcow2").path(), dir.join("demo.qcow2")).unwrap();
    let whole = diskfs(&["convert", "--json", "demo.qcow2", "disk.raw"]).json();
    let words = ["convert", "--json", "-p", "1", "demo.qcow2", "fs.raw"];
    let volume = diskfs(&words).json();
    let size = |document: &Value| document["virtual_size_bytes"].as_u64().unwrap();
    assert!(size(&volume) < size(&whole));
    let listed = diskfs(&["ls", "fs.raw:/etc"]).text();
    assert_eq!(listed, diskfs(&["ls", "-p", "1", "demo.qcow2:/etc"]).text());

    diskfs(&["snapshot", "create", "demo.qcow2", "before"]).text();
    diskfs(&["rm", "-p", "1", "demo.qcow2:/etc/os-release"]).text();
    let words = [
        "convert",
        "--snapshot",
        "before",
        "demo.qcow2",
        "before.raw",
    ];
    diskfs(&words).text();
    diskfs(&["compare", "disk.raw", "before.raw"]).text();
    assert_eq!(
        diskfs(&["compare", "disk.raw", "demo.qcow2"]).code(),
        Some(1)
    );
}

#[test]
fn an_existing_image_is_overwritten_with_n() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    for (name, size) in [("to.qcow2", "32M"), ("to.raw", "24M")] {
        diskfs(&["create", name, size]).text();
        diskfs(&["convert", "-n", "--target-is-zero", "disk.raw", name]).text();
        diskfs(&["compare", "disk.raw", name]).text();
        fs::write(dir.join("other.raw"), vec![7; 24 * MIB]).unwrap();
        diskfs(&["convert", "-n", "other.raw", name]).text();
        diskfs(&["convert", "-n", "disk.raw", name]).text();
        diskfs(&["compare", "disk.raw", name]).text();
    }
    diskfs(&["create", "short.raw", "1M"]).text();
    let (_, message) = diskfs(&["convert", "-n", "disk.raw", "short.raw"]).failure();
    assert!(message.contains("too small"), "{message}");
}

#[test]
fn differences_are_told_by_the_exit_code_and_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let compare = |words: &[&str]| -> Run { diskfs_in(dir, &[&["compare"], words].concat()) };
    write_disk(&dir.join("a.raw"));
    fs::copy(dir.join("a.raw"), dir.join("b.raw")).unwrap();
    assert_eq!(compare(&["a.raw", "b.raw"]).code(), Some(0));
    let file = fs::File::options().write(true).open(dir.join("b.raw"));
    let file = file.unwrap();
    file.set_len(25 << 20).unwrap();
    assert_eq!(compare(&["a.raw", "b.raw"]).code(), Some(0));
    let strict = compare(&["--strict", "a.raw", "b.raw"]);
    assert_eq!(strict.code(), Some(1));
    file.write_all_at(&[1], (20 << 20) + 5).unwrap();
    for words in [["a.raw", "b.raw"], ["b.raw", "a.raw"]] {
        let ran = compare(&words);
        assert_eq!(ran.code(), Some(1));
        assert_eq!(ran.output.stdout, b"different at byte 20971525\n");
    }
    let document = compare(&["--json", "a.raw", "b.raw"]);
    let document: Value = serde_json::from_slice(&document.output.stdout).unwrap();
    assert_eq!(document["first_difference_bytes"], 20_971_525);
    assert_eq!(document["equal"], json!(false));
    assert_eq!(compare(&["a.raw", "missing.raw"]).code(), Some(2));
}

/// The map has the ranges of `qemu-img map`.
#[test]
fn the_map_is_that_of_qemu_img() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    diskfs(&["convert", "disk.raw", "plain.qcow2"]).text();
    diskfs(&["convert", "-c", "disk.raw", "packed.qcow2"]).text();
    diskfs(&["create", "-b", "plain.qcow2", "-F", "qcow2", "top.qcow2"]).text();
    for name in ["plain.qcow2", "packed.qcow2", "top.qcow2", "disk.raw"] {
        let ours = diskfs(&["map", "--json", name]).json();
        let theirs: Value =
            serde_json::from_str(&qemu_img(dir, &["map", "--output=json", name])).unwrap();
        let ours = ours["extents"].as_array().unwrap();
        let theirs = theirs.as_array().unwrap();
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (our, their) in ours.iter().zip(theirs) {
            let kind = match (&their["present"], &their["zero"], &their["compressed"]) {
                (Value::Bool(false), ..) => "unallocated",
                (_, Value::Bool(true), _) => "zero",
                (_, _, Value::Bool(true)) => "compressed",
                _ => "data",
            };
            assert_eq!(our["kind"], kind, "{name}: {our} {their}");
            for (our_key, their_key) in [
                ("offset_bytes", "start"),
                ("length_bytes", "length"),
                ("depth", "depth"),
                ("host_offset_bytes", "offset"),
            ] {
                assert_eq!(our[our_key], their[their_key], "{name}: {our} {their}");
            }
        }
        let lines = diskfs(&["map", name]).text();
        assert_eq!(lines.lines().count(), ours.len() + 1);
    }
}

#[test]
fn the_measured_size_is_that_of_qemu_img_and_is_not_exceeded() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    diskfs(&["convert", "disk.raw", "disk.qcow2"]).text();
    let odd = fs::File::create(dir.join("odd.raw")).unwrap();
    odd.set_len((600 << 20) + 512).unwrap();
    odd.write_all_at(b"end", (600 << 20) + 100).unwrap();
    for (format, name) in [
        ("raw", "disk.raw"),
        ("qcow2", "disk.qcow2"),
        ("raw", "odd.raw"),
    ] {
        for options in [
            &["-O", "raw"][..],
            &["-O", "qcow2"],
            &["-O", "qcow2", "-o", "cluster_size=4k"],
            &["-O", "qcow2", "-o", "cluster_size=2M,refcount_bits=64"],
            &["-O", "qcow2", "-o", "extended_l2=on"],
        ] {
            let words = [&["measure", "--json"], options, &[name]].concat();
            let ours = diskfs(&words).json();
            let theirs = [
                &["measure", "--output=json", "-f", format],
                options,
                &[name],
            ]
            .concat();
            let theirs: Value = serde_json::from_str(&qemu_img(dir, &theirs)).unwrap();
            assert_eq!(
                ours["required_bytes"], theirs["required"],
                "{name} {options:?}"
            );
            assert_eq!(ours["fully_allocated_bytes"], theirs["fully-allocated"]);
            let copy = [&["convert", "--force", "--json"], options, &[name, "copy"]].concat();
            let copied = diskfs(&copy).json();
            assert!(copied["file_size_bytes"].as_u64() <= ours["required_bytes"].as_u64());
        }
    }
}

/// A kill is the least that `--resume` must survive.
#[test]
fn a_killed_copy_is_continued() {
    let cases: [&[&str]; 3] = [&[], &["-c"], &["-c", "-o", "compression_type=zstd"]];
    for options in cases {
        let directory = tempfile::tempdir().unwrap();
        check_killed_copy(directory.path(), options);
    }
}

fn check_killed_copy(dir: &Path, options: &[&str]) {
    let disk = fs::File::create(dir.join("disk.raw")).unwrap();
    disk.set_len(2 << 30).unwrap();
    for at in (0..40).map(|number| (1 << 30) + (number << 20)) {
        disk.write_all_at(&pattern("resume", MIB), at).unwrap();
    }
    let words = [&["convert", "--resume", "disk.raw", "copy.qcow2"], options].concat();
    let mut slow = std::process::Command::new(crate::DISKFS);
    let slow = slow
        .current_dir(dir)
        .args(&words)
        .args(["-r", "4M", "-m", "1"]);
    let mut killed = slow.spawn().unwrap();
    let record = dir.join("copy.qcow2.resume");
    let is_half_done = || {
        let record = fs::read_to_string(&record).unwrap_or_default();
        let progress = record.lines().nth(1).unwrap_or_default();
        progress.split(' ').next() == Some("1073741824")
    };
    while !is_half_done() {
        assert!(killed.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!dir.join("copy.qcow2").exists());
    for other in [&["-o", "cluster_size=4k"][..], &["-c", "--level", "2"]] {
        let other = if options.is_empty() || other[0] == "-o" {
            [&words[..], other].concat()
        } else {
            [&words[..], &other[1..]].concat()
        };
        let (code, message) = diskfs_in(dir, &other).failure();
        assert_eq!(code, 2, "{message}");
        assert!(message.contains("remove copy.qcow2.partial"), "{message}");
    }
    diskfs_in(dir, &words).text();
    diskfs_in(dir, &["compare", "disk.raw", "copy.qcow2"]).text();
    qemu_img(dir, &["check", "-q", "copy.qcow2"]);
    qemu_img(dir, &["compare", "disk.raw", "copy.qcow2"]);
    assert_eq!(dir.read_dir().unwrap().count(), 2);
    for words in [
        ["convert", "--resume", "disk.raw", "-"],
        ["convert", "--resume", "-", "new.raw"],
    ] {
        let (_, message) = diskfs_in(dir, &words).failure();
        assert!(message.contains("cannot be continued"), "{message}");
    }
}

#[test]
fn an_image_is_written_to_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    write_disk(&dir.join("disk.raw"));
    let uuid = "3c1e5a0e-9f5c-4a2b-8d3e-2f6a7b8c9d0e";
    let stream: &[&str] = &["-O", "vmdk", "-o", "subformat=streamOptimized"];
    let cases: [&[&str]; 7] = [
        &["-O", "raw"],
        stream,
        &["-O", "qcow2"],
        &["-O", "qcow2", "-c", "--no-sandbox"],
        &["-O", "vhd", "-o", "force_size=on"],
        &["-O", "vdi", "-m", "1"],
        &["-O", "vhdx"],
    ];
    for options in cases {
        let words = [&["convert", "--uuid", uuid], options].concat();
        let to = |name| diskfs_in(dir, &[&words[..], &["disk.raw", name]].concat());
        let written = to("-");
        assert_eq!(written.code(), Some(0), "{options:?}: {:?}", written.output);
        if options == ["-O", "qcow2"] {
            // It has the zeroes that the source stores, which the file does not.
            fs::write(dir.join("disk.qcow2"), &written.output.stdout).unwrap();
            qemu_img(dir, &["compare", "disk.raw", "disk.qcow2"]);
            qemu_img(dir, &["check", "disk.qcow2"]);
            continue;
        }
        to("disk.vmdk").text();
        let file = fs::read(dir.join("disk.vmdk")).unwrap();
        assert!(written.output.stdout == file, "{options:?}");
        fs::remove_file(dir.join("disk.vmdk")).unwrap();
    }
    let words = ["convert", "--json", "-O", "vdi", "disk.raw", "-"];
    let written = diskfs_in(dir, &words).output;
    let summary: Value = serde_json::from_slice(&written.stderr).unwrap();
    assert_eq!(summary["file_size_bytes"], json!(written.stdout.len()));
    let (_, message) = diskfs_in(dir, &["convert", "--verify", "disk.raw", "-"]).failure();
    assert!(message.contains("cannot be verified"), "{message}");
    assert!(!dir.join("-").exists());
    // A terminal is refused.
    let program = crate::DISKFS;
    let mut script = diskfs_fixtures::command("script");
    script.args([
        "-qec",
        &format!("{program} convert disk.raw -"),
        "/dev/null",
    ]);
    let output = script.current_dir(dir).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("to a terminal"), "{printed}");
}

/// Marks a bitmap as one whose writer was killed.
fn break_bitmap(image: &Path, name: &str) {
    let mut bytes = fs::read(image).unwrap();
    // Also in older directories, which are not in use.
    let windows = bytes.windows(name.len()).enumerate();
    let found = windows.filter(|(_, it)| *it == name.as_bytes());
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    for at in found {
        bytes[at - 24 + 15] |= 1;
    }
    fs::write(image, bytes).unwrap();
}

#[test]
fn bitmaps_are_copied_with_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    diskfs(&["convert", "disk.raw", "disk.qcow2"]).text();
    diskfs(&["bitmap", "add", "disk.qcow2", "monday"]).text();
    diskfs(&["bitmap", "add", "disk.qcow2", "tuesday"]).text();
    diskfs(&["bitmap", "disable", "disk.qcow2", "tuesday"]).text();
    let listed = |image: &str| diskfs(&["bitmap", "list", "--json", image]).json();
    let expected = listed("disk.qcow2");
    for options in [&["-c", "--verify"][..], &["-B", "disk.raw", "-F", "raw"]] {
        let words = [
            &["convert", "--bitmaps"],
            options,
            &["disk.qcow2", "copy.qcow2"],
        ];
        diskfs(&words.concat()).text();
        assert_eq!(listed("copy.qcow2"), expected);
        diskfs(&["check", "copy.qcow2"]).text();
        fs::remove_file(dir.join("copy.qcow2")).unwrap();
    }
    let words = ["convert", "--bitmaps", "-O", "qcow2", "disk.qcow2", "-"];
    let stream = diskfs(&words).output.stdout;
    fs::write(dir.join("stream.qcow2"), stream).unwrap();
    assert_eq!(listed("stream.qcow2"), expected);
    diskfs(&["create", "there.qcow2", "24M"]).text();
    diskfs(&[
        "convert",
        "--bitmaps",
        "-n",
        "disk.qcow2",
        "there.qcow2",
        "-O",
        "qcow2",
    ])
    .text();
    assert_eq!(listed("there.qcow2"), expected);
    break_bitmap(&dir.join("disk.qcow2"), "monday");
    for (words, said) in [
        (
            &["--bitmaps", "disk.qcow2", "x.qcow2"][..],
            "bitmap `monday` was not saved",
        ),
        (&["--bitmaps", "disk.raw", "x.qcow2"], "not supported"),
        (
            &["--bitmaps", "stream.qcow2", "x.raw"],
            "only supported in qcow2",
        ),
        (&["--bitmaps", "-p", "1", "stream.qcow2", "x.qcow2"], ""),
        (
            &[
                "--bitmaps",
                "-n",
                "-O",
                "qcow2",
                "stream.qcow2",
                "there.qcow2",
            ],
            "exists already",
        ),
    ] {
        let (_, message) = diskfs(&[&["convert"], words].concat()).failure();
        assert!(message.contains(said), "{words:?}: {message}");
        assert!(!dir.join("x.qcow2").exists() && !dir.join("x.raw").exists());
    }
    let words = [
        "convert",
        "--bitmaps",
        "--skip-broken-bitmaps",
        "disk.qcow2",
        "x.qcow2",
    ];
    let ran = diskfs(&words);
    assert_eq!(ran.code(), Some(0));
    let warned = String::from_utf8(ran.output.stderr).unwrap();
    assert!(warned.contains("warning: bitmap `monday`"), "{warned}");
    assert_eq!(listed("x.qcow2")["bitmaps"].as_array().unwrap().len(), 1);
    as_qemu_img_does(dir);
}

/// Compares the treatment of a bitmap that was not saved properly.
fn as_qemu_img_does(dir: &Path) {
    if require("qemu-img").is_none() {
        return;
    }
    let words = [
        "convert",
        "--bitmaps",
        "-O",
        "qcow2",
        "disk.qcow2",
        "y.qcow2",
    ];
    let skipping = [&words[..1], &["--skip-broken-bitmaps"], &words[1..]].concat();
    for (words, is_done) in [(&words[..], false), (&skipping, true)] {
        let theirs = diskfs_fixtures::command("qemu-img")
            .args(words)
            .current_dir(dir)
            .output();
        let theirs = theirs.unwrap();
        let ours = diskfs_in(dir, &[&["qemu-img"], words].concat()).output;
        assert_eq!(theirs.status.success(), is_done, "{theirs:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{ours:?}");
        if is_done {
            assert_eq!(ours.stderr, theirs.stderr);
        }
    }
}
