//! `diskfs-benches scale` with small numbers. Each case is a process of its own, whose memory and
//! descriptors it measures.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{have, require_fuse, require_root, skip};

/// The programs that make and judge images.
const PROGRAMS: [&str; 5] = ["mke2fs", "e2fsck", "debugfs", "qemu-img", "umount"];

/// The factor for the processor time, which the tests beside it prolong, too. An operation that takes
/// time in proportion to the number of those before it exceeds it.
const FACTOR: &str = "15";

/// Runs a case.
fn scale(name: &str, count: u64) {
    if require_root().is_none() || require_fuse().is_none() || !have(&PROGRAMS) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_diskfs-benches"));
    let diskfs = program.with_file_name("diskfs");
    if !diskfs.exists() {
        return skip("the program diskfs is not built");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut scale = Command::new(program);
    scale.args(["scale", name, "--busy", "--factor", FACTOR, "--count"]);
    scale.arg(count.to_string()).arg("--diskfs").arg(diskfs);
    let output = scale.arg("--dir").arg(dir.path()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{output:?}");
    let last = format!("| {count} |");
    assert!(stdout.contains(&last), "{stdout}");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "images are left");
}

#[test]
fn files_of_a_directory() {
    scale("directory", 5000);
}

#[test]
fn files_of_a_filesystem() {
    scale("tree-raw", 10_000);
}

#[test]
fn blocks_of_a_large_file() {
    scale("large-file", 1000);
}

#[test]
fn mounts() {
    scale("mounts", 20);
}

#[test]
fn open_images() {
    scale("images", 60);
}
