//! convert from sources that are damaged, or limited in their rate.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use diskfs_fixtures::{pattern, require};
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
