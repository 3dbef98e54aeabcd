//! Trees to compare, and what `fsck.exfat` says.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use diskfs_vfs::{FsRead, InodeNumber};

/// All images of exFAT.
pub(crate) const FIXTURES: [&str; 4] = [
    "exfat.img",
    "exfat-cluster-512.img",
    "exfat-cluster-128k.img",
    "exfat-sector-4k.img",
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

/// Fails unless `fsck.exfat -n` finds nothing.
pub(crate) fn fsck(image: &Path) {
    let (clean, told) = fsck_says(image);
    assert!(clean, "{told}");
}

/// Whether `fsck.exfat -n` finds nothing, and what it says.
pub(crate) fn fsck_says(image: &Path) -> (bool, String) {
    let run = |program| Command::new(program).arg("-n").arg(image).output();
    let output = run("fsck.exfat").or_else(|_| run("/usr/sbin/fsck.exfat"));
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = told + &String::from_utf8_lossy(&output.stderr);
    (output.status.success() && told.contains(": clean."), told)
}
