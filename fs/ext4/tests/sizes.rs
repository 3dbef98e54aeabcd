//! Filesystems from 1 MiB to 16 TiB, written in many places and at their end. This is a test
//! program of its own because it measures its memory.

mod common;

use std::fs;
use std::path::Path;

use common::{Mounted, e2fsck, mke2fs_empty, open, open_for_writing};
use diskfs_fixtures::have;
use diskfs_vfs::{FileExtentKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

/// The maximum memory for writing any of them.
const MEMORY_MAX_BYTES: u64 = 128 << 20;

/// Returns the peak memory of this process.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

fn attributes() -> NewAttributes {
    NewAttributes::for_root(0o755)
}

/// Creates directories and files. A directory's place on the disk depends on its name, so enough of
/// them are everywhere.
fn write(fs: &dyn FsWrite, dirs: u64) {
    for n in 0..dirs {
        let name = format!("dir-{n}");
        let dir = fs
            .create(
                fs.root(),
                name.as_bytes(),
                NewKind::Directory,
                &attributes(),
            )
            .unwrap();
        let file = fs
            .create(dir, b"file", NewKind::Regular, &attributes())
            .unwrap();
        let contents = name.repeat(700);
        let written = fs.write_at(file, 0, contents.as_bytes()).unwrap();
        assert_eq!(written, contents.len());
    }
}

fn find(fs: &dyn FsRead, n: u64) -> InodeNumber {
    let dir = fs.lookup(fs.root(), format!("dir-{n}").as_bytes()).unwrap();
    fs.lookup(dir, b"file").unwrap()
}

/// Reads all files; returns the end of the last block of a file on the disk.
fn check(fs: &dyn FsRead, dirs: u64) -> u64 {
    let mut end = 0;
    for n in 0..dirs {
        let file = find(fs, n);
        let expected = format!("dir-{n}").repeat(700);
        let mut contents = vec![0; expected.len() + 1];
        assert_eq!(fs.read_at(file, 0, &mut contents).unwrap(), expected.len());
        assert_eq!(&contents[..expected.len()], expected.as_bytes());
        for extent in fs.extents_of(file, 0).unwrap() {
            let extent = extent.unwrap();
            if let FileExtentKind::Stored { device_offset } = extent.kind {
                end = end.max(device_offset + extent.len_bytes);
            }
        }
    }
    end
}

fn check_mounted(image: &Path, dirs: u64) {
    let Some(mounted) = Mounted::new("filesystems_of_every_size", image) else {
        return;
    };
    for n in 0..dirs {
        let dir = mounted.path().join(format!("dir-{n}"));
        let contents = fs::read_to_string(dir.join("file")).unwrap();
        assert_eq!(contents, format!("dir-{n}").repeat(700));
        if n % 2 == 0 {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

/// Writes to a filesystem made by mke2fs; the kernel removes half of the files, and this driver
/// continues.
fn exercise(size: &str, args: &str, dirs: u64) {
    let dir = tempfile::tempdir().unwrap();
    let args = format!(
        "-t ext4 -E lazy_itable_init=1,hash_seed=01234567-89ab-4def-8123-456789abcdef {args}"
    );
    let image = mke2fs_empty(dir.path(), &args, size);
    let size_bytes = image.metadata().unwrap().len();
    let fs = open_for_writing(&image);
    write(&fs, dirs);
    let end = check(&fs, dirs);
    if dirs > 100 {
        assert!(
            end > size_bytes / 100 * 98,
            "{size}: no file has blocks after byte {end}"
        );
    }
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    assert_eq!(check(&open(&image), dirs), end);
    check_mounted(&image, dirs);
    let fs = open_for_writing(&image);
    for n in (1..dirs).step_by(2) {
        let dir = fs.lookup(fs.root(), format!("dir-{n}").as_bytes()).unwrap();
        fs.unlink(dir, b"file").unwrap();
        fs.rmdir(fs.root(), format!("dir-{n}").as_bytes()).unwrap();
    }
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    let peak = peak_bytes();
    assert!(peak < MEMORY_MAX_BYTES, "{size}: {peak} bytes of memory");
}

#[test]
fn filesystems_of_every_size() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for (size, args, dirs) in [
        ("1M", "", 5),
        ("8M", "", 20),
        ("8M", "-b 4096 -m 0", 20),
        ("1G", "", 100),
        ("1T", "", 400),
    ] {
        exercise(size, args, dirs);
    }
}

/// Tests block numbers of almost 32 bits, and as many block groups as any filesystem of that size
/// has. The host's filesystem must allow such a file: ext4 ends one block before.
#[test]
#[ignore = "takes a minute, and e2fsck a GiB of memory"]
fn sixteen_tebibytes() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    exercise("17179869180k", "", 600);
}
