//! Trees to compare: path, contents, and times of files.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use diskfs_vfs::{FsRead, InodeNumber};

/// All images of FAT.
pub(crate) const FIXTURES: [&str; 7] = [
    "fat12",
    "fat12-one-table",
    "fat16",
    "fat16-sector-4k",
    "fat16-cluster-32k",
    "fat32",
    "fat32-small",
];

/// Contents and modification time of files by path; `None` for a directory.
pub(crate) type Tree = BTreeMap<String, Option<(Vec<u8>, i64)>>;

/// What our driver shows.
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

/// All contents of a file.
pub(crate) fn read(fs: &dyn FsRead, inode: InodeNumber) -> Vec<u8> {
    let size = fs.metadata(inode).unwrap().size_bytes;
    let mut bytes = vec![0; usize::try_from(size).unwrap() + 1];
    let len = fs.read_at(inode, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// What mtools takes out of the image.
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

/// Fails unless `fsck.vfat -n` finds nothing.
pub(crate) fn fsck(image: &Path) {
    let (clean, told) = fsck_says(image);
    assert!(clean, "{told}");
}

/// Whether `fsck.vfat -n` finds nothing, and what it says.
pub(crate) fn fsck_says(image: &Path) -> (bool, String) {
    let output = Command::new("fsck.vfat").arg("-n").arg(image).output();
    let output = output.or_else(|_| {
        Command::new("/usr/sbin/fsck.vfat")
            .arg("-n")
            .arg(image)
            .output()
    });
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.success(),
        told + &String::from_utf8_lossy(&output.stderr),
    )
}
