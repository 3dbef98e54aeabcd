//! Helpers for the tests of FAT and exFAT: trees to compare, checkers, and operations that must not
//! panic on a damaged filesystem.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Memory};
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, Result};

/// The FAT images.
pub(crate) const FAT_IMAGES: [&str; 7] = [
    "fat12",
    "fat12-one-table",
    "fat16",
    "fat16-sector-4k",
    "fat16-cluster-32k",
    "fat32",
    "fat32-small",
];

/// The exFAT images.
pub(crate) const EXFAT_IMAGES: [&str; 4] = [
    "exfat.img",
    "exfat-cluster-512.img",
    "exfat-cluster-128k.img",
    "exfat-sector-4k.img",
];

/// The contents and modification times of files by path; `None` for a directory.
pub(crate) type Tree = BTreeMap<String, Option<(Vec<u8>, i64)>>;

/// Returns the tree that our driver reads.
pub(crate) fn tree(fs: &dyn FsRead) -> Tree {
    let mut tree = Tree::new();
    add(fs, fs.root(), "", &mut tree);
    tree
}

fn add(fs: &dyn FsRead, dir: InodeNumber, path: &str, tree: &mut Tree) {
    for entry in fs.read_dir(dir, 0).unwrap() {
        let entry = entry.unwrap();
        let name = String::from_utf8(entry.name.clone()).unwrap();
        assert_eq!(
            fs.lookup(dir, &entry.name).unwrap(),
            entry.inode,
            "{path}/{name}"
        );
        if name == "." || name == ".." {
            continue;
        }
        let path = format!("{path}/{name}");
        let metadata = fs.metadata(entry.inode).unwrap();
        if metadata.is_dir() {
            tree.insert(path.clone(), None);
            add(fs, entry.inode, &path, tree);
        } else {
            let contents = read(fs, entry.inode);
            assert_eq!(contents.len() as u64, metadata.size_bytes);
            tree.insert(path, Some((contents, metadata.modified.seconds)));
        }
    }
}

/// Returns the whole contents of a file.
pub(crate) fn read(fs: &dyn FsRead, inode: InodeNumber) -> Vec<u8> {
    let size = fs.metadata(inode).unwrap().size_bytes;
    let mut bytes = vec![0; usize::try_from(size).unwrap() + 1];
    let len = fs.read_at(inode, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Returns the tree that mtools extracts from an image.
pub(crate) fn mtools_tree(image: &Path) -> Tree {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("mcopy")
        .args(["-s", "-n", "-m", "-Q", "-i"])
        .args([
            image.as_os_str(),
            "::".as_ref(),
            directory.path().as_os_str(),
        ])
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env("MTOOLS_SKIP_CHECK", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut tree = Tree::new();
    add_host(directory.path(), "", &mut tree);
    tree
}

fn add_host(directory: &Path, path: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{path}/{}", entry.file_name().to_str().unwrap());
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            tree.insert(path.clone(), None);
            add_host(&entry.path(), &path, tree);
        } else {
            let modified = metadata.modified().unwrap();
            let seconds = modified
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs();
            let contents = std::fs::read(entry.path()).unwrap();
            tree.insert(path, Some((contents, seconds.try_into().unwrap())));
        }
    }
}

/// Fails unless `program -n` reports no problem.
pub(crate) fn fsck(program: &str, image: &Path) {
    let (is_clean, told) = fsck_says(program, image);
    assert!(is_clean, "{told}");
}

/// Returns true if `program -n` reports no problem, and its output.
pub(crate) fn fsck_says(program: &str, image: &Path) -> (bool, String) {
    let run = |program: &str| {
        diskfs_fixtures::command(program)
            .arg("-n")
            .arg(image)
            .output()
    };
    let output = run(program).or_else(|_| run(&format!("/usr/sbin/{program}")));
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = told + &String::from_utf8_lossy(&output.stderr);
    // `fsck.exfat` exits with 0 for some of the problems that it reports.
    let is_clean = program != "fsck.exfat" || told.contains(": clean.");
    (output.status.success() && is_clean, told)
}

/// A function that opens a filesystem for reading.
pub(crate) type Open = fn(Arc<dyn BlockRead>) -> Result<Box<dyn FsRead>>;
/// A function that opens a filesystem for writing, without commits at intervals.
pub(crate) type OpenWritable = fn(Arc<dyn BlockWrite>) -> Result<Box<dyn FsWrite>>;

/// Reads everything that a listing shows, and tries all changes.
pub(crate) fn try_all(open: Open, open_writable: OpenWritable, bytes: Vec<u8>) {
    let device = Arc::new(Memory::new(bytes));
    if let Ok(fs) = open(device.clone()) {
        let _ = (fs.identity(), fs.statistics());
        for entry in diskfs_vfs::walk(&*fs, fs.root()).take(600).flatten() {
            let _ = fs.read_at(entry.inode, 0, &mut [0; 9000]);
            let _ = fs.extents_of(entry.inode, 0).map(Iterator::count);
            let _ = fs.lookup(entry.inode, b"..");
        }
        for number in [0, 1, 2, 1000, 123_456, u64::MAX / 32, u64::MAX] {
            let _ = fs.metadata(InodeNumber(number));
        }
    }
    let Ok(fs) = open_writable(device) else {
        return;
    };
    let any = NewAttributes::for_root(0o644);
    let root = fs.root();
    let entries: Vec<_> = diskfs_vfs::walk(&*fs, root).take(60).flatten().collect();
    for entry in &entries {
        let _ = fs.write_at(entry.inode, entry.metadata.size_bytes + 700, &[1; 3000]);
        let _ = fs.set_len(entry.inode, 100);
        let _ = fs.create(entry.inode, b"a new name in here", NewKind::Directory, &any);
    }
    if let Ok(listed) = fs.read_dir(root, 0) {
        let new_name = b"renamed to another name";
        for entry in listed.flatten().take(40).collect::<Vec<_>>() {
            let _ = fs.rename(root, &entry.name, root, new_name, RenameMode::Replace);
            let _ = fs.unlink(root, new_name);
            let _ = fs.rmdir(root, &entry.name);
        }
    }
    let _ = fs.sync();
    let _ = fs.close();
}
