//! A directory with very many files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewKind};

use crate::common::{Mounted, e2fsck, mke2fs_empty, open, open_for_writing};
use crate::{create, number};

fn name(n: u64) -> String {
    format!("file-{n:06}")
}

fn listed(fs: &dyn FsRead, dir: InodeNumber) -> BTreeSet<String> {
    let entries = fs.read_dir(dir, 0).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
    let mut set = BTreeSet::new();
    for name in names.filter(|name| name != "." && name != "..") {
        assert!(set.insert(name), "listed twice");
    }
    set
}

fn listed_by_the_kernel(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// Creates files that the kernel lists. The kernel adds half as many; then this driver removes
/// them.
#[test]
fn a_directory_of_many_files() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let count = number("DISKFS_FILES", 3_000);
    let theirs = count + count / 2;
    let dir = tempfile::tempdir().unwrap();
    let args = format!("-t ext4 -N {}", theirs + 100);
    let image = mke2fs_empty(dir.path(), &args, &format!("{}M", 64 + count / 1000));
    let mut expected: BTreeSet<String> = (0..count).map(name).collect();

    let fs = open_for_writing(&image);
    let parent = create(&fs, fs.root(), "many", NewKind::Directory).unwrap();
    for n in 0..count {
        create(&fs, parent, &name(n), NewKind::Regular).unwrap();
    }
    assert!(listed(&fs, parent) == expected);
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);

    if let Some(mounted) = Mounted::new("a_directory_of_many_files", &image) {
        let parent = mounted.path().join("many");
        assert!(listed_by_the_kernel(&parent) == expected);
        for n in count..theirs {
            fs::write(parent.join(name(n)), "").unwrap();
            expected.insert(name(n));
        }
    }

    let fs = open_for_writing(&image);
    assert!(listed(&fs, parent) == expected);
    // All but every hundredth: leaves become empty, and stay in the index.
    let (kept, gone): (BTreeSet<_>, _) = expected.iter().cloned().partition(|n| n.ends_with("00"));
    for name in &gone {
        fs.unlink(parent, name.as_bytes()).unwrap();
    }
    assert!(listed(&fs, parent) == kept);
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    assert!(listed(&open(&image), parent) == kept);

    let fs = open_for_writing(&image);
    for name in &kept {
        fs.unlink(parent, name.as_bytes()).unwrap();
    }
    fs.rmdir(fs.root(), b"many").unwrap();
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
}
