//! convert from sources that are damaged, limited in their rate, a stream, or shareable.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{Mount, pattern, require, require_root, run};
use serde_json::Value;

use crate::{DISKFS, diskfs_in};

const MIB: usize = 1 << 20;

/// Writes a raw disk with data that compresses, zeroes that are stored, and a hole.
fn write_disk(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.set_len(24 << 20).unwrap();
    let letters = (b'a'..=b'z').cycle().flat_map(|letter| [letter; 1000]);
    let text: Vec<u8> = letters.take(3 * MIB).collect();
    file.write_all_at(&text, 1 << 20).unwrap();
    file.write_all_at(&vec![0; 2 * MIB], 8 << 20).unwrap();
    file.write_all_at(&pattern("disk", 70_000), 12 << 20)
        .unwrap();
    file.write_all_at(b"end", (24 << 20) - 3).unwrap();
}

/// Runs the program with this standard input.
fn with_input(directory: &Path, words: &[&str], input: &[u8]) -> Output {
    let mut command = std::process::Command::new(DISKFS);
    command.args(words).current_dir(directory);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input); // A program that fails doesn't read all.
    child.wait_with_output().unwrap()
}

#[test]
fn what_can_be_read_of_a_damaged_image_is_salvaged() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    diskfs(&["convert", "-c", "disk.raw", "packed.qcow2"]).text();
    diskfs(&["convert", "disk.raw", "cut.qcow2"]).text();
    let mut bytes = fs::read(dir.join("packed.qcow2")).unwrap();
    let entries = diskfs(&["map", "--json", "packed.qcow2"]).json();
    let packed = entries["extents"].as_array().unwrap().iter();
    let packed = packed.filter(|it| it["kind"] == "compressed").count();
    assert!(packed > 0);
    // In the middle of the compressed clusters.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 300].fill(0x55);
    fs::write(dir.join("packed.qcow2"), bytes).unwrap();
    let cut = fs::File::options()
        .write(true)
        .open(dir.join("cut.qcow2"))
        .unwrap();
    cut.set_len((2 << 20) + 5000).unwrap();
    for image in ["packed.qcow2", "cut.qcow2"] {
        let (code, _) = diskfs(&["convert", image, "x.raw"]).failure();
        assert_eq!(code, 5);
        assert!(!dir.join("x.raw").exists());
        let words = ["convert", "--salvage", "--json", image, "x.raw"];
        let ran = diskfs(&words);
        assert_eq!(ran.code(), Some(0), "{}", ran.stderr());
        assert!(
            ran.stderr().contains("could not be read"),
            "{}",
            ran.stderr()
        );
        let document: Value = serde_json::from_slice(&ran.output.stdout).unwrap();
        let lost = document["lost"].as_array().unwrap();
        assert!(!lost.is_empty());
        let copy = fs::read(dir.join("x.raw")).unwrap();
        let disk = fs::read(dir.join("disk.raw")).unwrap();
        let is_lost = |at: usize| {
            lost.iter().any(|range| {
                let start = range["offset_bytes"].as_u64().unwrap();
                (start..start + range["length_bytes"].as_u64().unwrap()).contains(&(at as u64))
            })
        };
        for at in (0..disk.len()).step_by(512) {
            let expected = if is_lost(at) {
                &[0; 512]
            } else {
                &disk[at..at + 512]
            };
            assert!(&copy[at..at + 512] == expected, "{image}: byte {at}");
        }
        fs::remove_file(dir.join("x.raw")).unwrap();
        let words = ["convert", "--salvage", "--verify", image, "x.qcow2"];
        assert_eq!(diskfs(&words).code(), Some(0));
        fs::remove_file(dir.join("x.qcow2")).unwrap();
        if require("qemu-img").is_none() {
            continue;
        }
        for (program, name) in [("qemu-img", "theirs.raw"), (DISKFS, "ours.raw")] {
            let words = ["convert", "--salvage", "-O", "raw", image, name];
            let mut command = std::process::Command::new(program);
            if program == DISKFS {
                command.arg("qemu-img");
            }
            let output = command.args(words).current_dir(dir).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let quiet = image == "cut.qcow2" && program == "qemu-img";
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(
                quiet || errors.starts_with("qemu-img: warning: "),
                "{errors}"
            );
        }
        let theirs = fs::read(dir.join("theirs.raw")).unwrap();
        // QEMU reads zeroes after the end of a file, also in the sector in which it ends.
        let ours = fs::read(dir.join("ours.raw")).unwrap();
        let unequal = (0..theirs.len()).step_by(512);
        let unequal = unequal.filter(|at| theirs[*at..*at + 512] != ours[*at..*at + 512]);
        assert!(
            unequal.count() <= usize::from(image == "cut.qcow2"),
            "{image}"
        );
        let words = [
            "convert",
            "--salvage",
            "-q",
            "-O",
            "raw",
            image,
            "quiet.raw",
        ];
        diskfs(&[&["qemu-img"][..], &words].concat()).text();
    }
    // Nothing is lost of an intact image.
    let words = ["convert", "--salvage", "--json", "disk.raw", "intact.qcow2"];
    assert_eq!(diskfs(&words).json()["lost"], Value::Array(Vec::new()));
}

#[test]
fn the_rate_of_reading_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    fs::write(dir.join("disk.raw"), pattern("rate", 2 * MIB)).unwrap();
    let took = |words: &[&str]| {
        let began = Instant::now();
        diskfs_in(dir, words).text();
        began.elapsed()
    };
    let slow = took(&["convert", "-r", "1M", "disk.raw", "slow.qcow2"]);
    assert!(slow > Duration::from_millis(1500), "{slow:?}");
    let words = ["qemu-img", "convert", "-r", "1M", "disk.raw", "slow.raw"];
    assert!(took(&words) > Duration::from_millis(1500));
    took(&["convert", "--rate-limit", "0", "disk.raw", "fast.qcow2"]);
    diskfs_in(dir, &["compare", "disk.raw", "slow.qcow2"]).text();
}

#[test]
fn an_image_is_read_from_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let diskfs = |words: &[&str]| diskfs_in(dir, words);
    write_disk(&dir.join("disk.raw"));
    diskfs(&["convert", "-c", "disk.raw", "disk.qcow2"]).text();
    let words = [
        "convert",
        "-o",
        "subformat=streamOptimized",
        "disk.raw",
        "disk.vmdk",
    ];
    diskfs(&words).text();
    run("gzip", ["-k".as_ref(), dir.join("disk.raw").as_os_str()]).unwrap();
    let raw = fs::read(dir.join("disk.raw")).unwrap();
    for (image, options, target, is_spooled) in [
        ("disk.raw", &[][..], "x.raw", false),
        (
            "disk.raw",
            &["--no-sandbox", "--format", "raw"],
            "x.raw",
            false,
        ),
        ("disk.raw", &["-S", "0"], "x.raw", false),
        ("disk.raw.gz", &[], "x.raw", false),
        ("disk.raw.gz", &["--format", "compressed"], "x.qcow2", true),
        ("disk.raw", &["--verify"], "x.raw", true),
        ("disk.raw", &["-c"], "x.qcow2", true),
        ("disk.qcow2", &["--verify"], "x.raw", true),
        ("disk.qcow2", &["--no-sandbox"], "x.vhdx", true),
        ("disk.vmdk", &["--format", "vmdk"], "x.qcow2", true),
        ("disk.qcow2", &["--salvage", "-r", "1G"], "x.raw", true),
    ] {
        let bytes = fs::read(dir.join(image)).unwrap();
        let words = [&["convert"], options, &["-", target]].concat();
        let ran = with_input(dir, &words, &bytes);
        let errors = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{words:?}: {errors}");
        assert_eq!(
            errors.contains("temporary file"),
            is_spooled,
            "{words:?}: {errors}"
        );
        diskfs(&["compare", "disk.raw", target]).text();
        fs::remove_file(dir.join(target)).unwrap();
    }
    // A given format is not probed.
    let packed = fs::read(dir.join("disk.qcow2")).unwrap();
    let whole = packed.len().next_multiple_of(512);
    let padded = [packed.as_slice(), &vec![0; whole - packed.len()]].concat();
    let ran = with_input(dir, &["convert", "--format", "raw", "-", "x.raw"], &padded);
    assert!(ran.status.success(), "{ran:?}");
    assert!(fs::read(dir.join("x.raw")).unwrap() == padded);
    fs::remove_file(dir.join("x.raw")).unwrap();
    // A stream that ends early leaves nothing.
    let stream = fs::read(dir.join("disk.vmdk")).unwrap();
    for (bytes, options) in [
        (&raw[..5 * MIB + 100], &[][..]),
        (&raw[..0], &[]),
        (&packed[..packed.len() / 2], &[]),
        (&packed[..10], &["--format", "qcow2"]),
        (&stream[..stream.len() - 2000], &[]),
    ] {
        let words = [&["convert", "-O", "raw"], options, &["-", "x.raw"]].concat();
        let ran = with_input(dir, &words, bytes);
        assert!(!ran.status.success(), "{} bytes: {ran:?}", bytes.len());
        assert!(!dir.join("x.raw").exists());
    }
    // An image that arrives as a stream is in no directory, so it can't name files.
    diskfs(&["create", "-b", "disk.raw", "-F", "raw", "top.qcow2"]).text();
    let top = fs::read(dir.join("top.qcow2")).unwrap();
    let ran = with_input(dir, &["convert", "-", "x.raw"], &top);
    assert_eq!(ran.status.code(), Some(6), "{ran:?}");
    // Standard input and output together.
    let ran = with_input(dir, &["convert", "-O", "raw", "-", "-"], &packed);
    assert!(ran.stdout == raw);
    assert!(!dir.join("-").exists() && !dir.join("x.raw").exists());
}

/// Copies on filesystems with shared blocks take no space.
#[test]
fn a_raw_copy_shares_blocks_where_the_host_can() {
    if require_root().is_none() || require("mkfs.btrfs").is_none() || require("mkfs.xfs").is_none()
    {
        return;
    }
    for (mkfs, size) in [("mkfs.btrfs", 256 << 20), ("mkfs.xfs", 512 << 20)] {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("fs.img");
        fs::File::create(&image).unwrap().set_len(size).unwrap();
        run(mkfs, [Path::new("-q"), &image]).unwrap();
        let mount = Mount::of_image(&image, "").unwrap();
        let dir = mount.path();
        let file = fs::File::create(dir.join("disk.raw")).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&pattern("shared", 24 * MIB), 1 << 20)
            .unwrap();
        file.sync_all().unwrap();
        let fiemap = |name: &str| {
            run("filefrag", [Path::new("-v"), &dir.join(name)])
                .unwrap()
                .contains("shared")
        };
        for (options, name, is_shared) in [
            (&[][..], "plain.raw", true),
            (&["--no-sandbox", "--verify"], "verified.raw", true),
            (&["-S", "0"], "full.raw", false),
            (&["-o", "preallocation=falloc"], "falloc.raw", false),
            (&["--salvage"], "salvaged.raw", false),
        ] {
            let words = [&["convert"], options, &["disk.raw", name]].concat();
            diskfs_in(dir, &words).text();
            assert_eq!(fiemap(name), is_shared, "{mkfs}: {name}");
            diskfs_in(dir, &["compare", "--strict", "disk.raw", name]).text();
            // Holes are holes.
            let blocks = fs::metadata(dir.join(name)).unwrap().blocks() * 512;
            assert_eq!(
                blocks >= 60 << 20,
                name.starts_with('f'),
                "{name}: {blocks}"
            );
            if !is_shared {
                fs::remove_file(dir.join(name)).unwrap();
            }
        }
        // A change of one is none of the other.
        let plain = fs::File::options()
            .write(true)
            .open(dir.join("plain.raw"))
            .unwrap();
        plain.write_all_at(&[7; 4096], 2 << 20).unwrap();
        diskfs_in(dir, &["compare", "disk.raw", "verified.raw"]).text();
        let words = ["qemu-img", "convert", "-O", "raw", "disk.raw", "qemu.raw"];
        diskfs_in(dir, &words).text();
        assert!(fiemap("qemu.raw"));
        drop((file, plain));
        mount.unmount().unwrap();
    }
}
