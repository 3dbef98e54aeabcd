//! A filesystem in which nothing is changed is not written; the first commit marks it as in use.

mod common;

use std::fs;
use std::path::Path;

use common::{e2fsck, mke2fs_empty, open_for_writing, run};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

const FEATURES: [&str; 4] = [
    "-t ext4 -b 4096",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O bigalloc,inline_data,orphan_file",
    "-t ext4 -b 1024 -O ^has_journal,^metadata_csum",
];

const ATTRIBUTES: NewAttributes = NewAttributes {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// Returns the lines of dumpe2fs that tell whether the filesystem is in use.
fn state(image: &Path) -> String {
    let shown = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
    let is_state = |line: &&str| {
        ["Filesystem state", "Mount count"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let mut state: Vec<&str> = shown.lines().filter(is_state).collect();
    if shown.contains("needs_recovery") {
        state.push("needs_recovery");
    }
    state.join("\n").replace(' ', "")
}

#[test]
fn nothing_is_written_before_a_change() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for features in FEATURES {
        let image = mke2fs_empty(dir.path(), features, "32M");
        let before = fs::read(&image).unwrap();
        {
            let fs = open_for_writing(&image);
            let error = fs.unlink(fs.root(), b"missing").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let taken = fs.create(fs.root(), b"lost+found", NewKind::Directory, &ATTRIBUTES);
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::Exists);
            fs.sync().unwrap();
            assert!(fs::read(&image).unwrap() == before, "{features}: sync");
            fs.close().unwrap();
        }
        assert!(fs::read(&image).unwrap() == before, "{features}");
        e2fsck(&image);
    }
}

#[test]
fn the_first_commit_marks_the_filesystem_as_in_use() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for features in FEATURES {
        let image = mke2fs_empty(dir.path(), features, "32M");
        let in_use = if features.contains("^has_journal") {
            "Filesystemstate:notclean\nMountcount:1"
        } else {
            "Filesystemstate:clean\nMountcount:1\nneeds_recovery"
        };
        let fs = open_for_writing(&image);
        // An orphan: the superblock itself is a part of the first transaction.
        let file = fs.create_unnamed(fs.root(), &ATTRIBUTES).unwrap();
        fs.sync().unwrap();
        assert_eq!(state(&image), in_use, "{features}");
        fs.release(file).unwrap();
        fs.sync().unwrap();
        assert_eq!(state(&image), in_use, "{features}: after another commit");
        fs.close().unwrap();
        drop(fs);
        assert_eq!(
            state(&image),
            "Filesystemstate:clean\nMountcount:1",
            "{features}"
        );
        e2fsck(&image);
    }
}
