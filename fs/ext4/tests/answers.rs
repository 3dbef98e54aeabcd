//! Results that once differed from the kernel's, as found by the crash harness; one test each.

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use common::run;
use diskfs_block::File;
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, Fallocate, FileFlags, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind,
    RenameMode, SetMetadata,
};
use tempfile::TempDir;

struct Made {
    fs: WritableExt4,
    image: PathBuf,
    _directory: TempDir,
}

/// Creates a filesystem. Returns `None` if mke2fs is not installed.
fn filesystem(options: &str) -> Option<Made> {
    if !have(&["mke2fs", "e2fsck"]) {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let mut all = vec!["-q", "-F", "-t", "ext4"];
    all.extend(options.split_whitespace());
    all.extend([image.to_str().unwrap(), "16M"]);
    run("mke2fs", &all);
    let device = Arc::new(File::open_read_write(&image).unwrap());
    Some(Made {
        fs: WritableExt4::open(device, &WriteOptions::default()).unwrap(),
        image,
        _directory: directory,
    })
}

fn make(fs: &WritableExt4, dir: InodeNumber, name: &[u8], kind: NewKind<'_>) -> InodeNumber {
    let attributes = NewAttributes::for_root(0o755);
    fs.create(dir, name, kind, &attributes).unwrap()
}

#[test]
fn a_taken_name_is_reported_before_that_it_is_above() {
    let Some(Made { fs, .. }) = filesystem("") else {
        return;
    };
    let above = make(&fs, fs.root(), b"above", NewKind::Directory);
    make(&fs, above, b"file", NewKind::Regular);
    let rename = |mode| {
        let renamed = fs.rename(above, b"file", fs.root(), b"above", mode);
        renamed.unwrap_err().kind()
    };
    assert_eq!(rename(RenameMode::NoReplace), ErrorKind::Exists);
    assert_eq!(rename(RenameMode::Replace), ErrorKind::NotEmpty);
}

#[test]
fn append_only_is_at_the_end_and_not_behind_it() {
    let Some(Made { fs, .. }) = filesystem("") else {
        return;
    };
    let file = make(&fs, fs.root(), b"log", NewKind::Regular);
    fs.write_at(file, 0, b"line").unwrap();
    let flags = FileFlags {
        append_only: true,
        ..FileFlags::default()
    };
    let change = SetMetadata {
        flags: Some(flags),
        ..SetMetadata::default()
    };
    fs.set_metadata(file, &change).unwrap();
    for offset in [0, 100] {
        let written = fs.write_at(file, offset, b"line");
        assert_eq!(written.unwrap_err().kind(), ErrorKind::NotPermitted);
    }
    assert_eq!(fs.write_at(file, 4, b"line").unwrap(), 4);
}

#[test]
fn a_new_name_is_refused_in_the_kernels_order() {
    let Some(Made { fs, .. }) = filesystem("") else {
        return;
    };
    let root = fs.root();
    let file = make(&fs, root, b"log", NewKind::Regular);
    make(&fs, root, b"taken", NewKind::Regular);
    fs.hold(file);
    let set_append_only = |append_only| {
        let flags = FileFlags {
            append_only,
            ..FileFlags::default()
        };
        let change = SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        fs.set_metadata(file, &change).unwrap();
    };
    let link = |name: &[u8]| fs.link(file, root, name).unwrap_err().kind();
    set_append_only(true);
    assert_eq!(link(b"taken"), ErrorKind::Exists);
    assert_eq!(link(b"free"), ErrorKind::NotPermitted);

    set_append_only(false);
    fs.unlink(root, b"log").unwrap();
    assert_eq!(link(b"taken"), ErrorKind::Exists);
    assert_eq!(link(b"free"), ErrorKind::NotFound);
    set_append_only(true);
    assert_eq!(link(b"free"), ErrorKind::NotPermitted);
    fs.release(file).unwrap();
}

#[test]
fn a_hole_behind_the_end_changes_the_times() {
    let Some(Made { fs, .. }) = filesystem("") else {
        return;
    };
    let file = make(&fs, fs.root(), b"empty", NewKind::Regular);
    let before = fs.metadata(file).unwrap();
    sleep(Duration::from_millis(2));
    fs.fallocate(file, 0, 4096, Fallocate::PunchHole).unwrap();
    let after = fs.metadata(file).unwrap();
    assert!(after.modified > before.modified && after.changed > before.changed);
}

#[test]
fn what_a_fifo_can_not_have_can_not_be_removed_either() {
    let Some(Made { fs, .. }) = filesystem("") else {
        return;
    };
    let fifo = make(&fs, fs.root(), b"fifo", NewKind::Fifo);
    let removed = fs.remove_xattr(fifo, b"user.none").unwrap_err();
    assert_eq!(removed.kind(), ErrorKind::NotPermitted);
    let removed = fs.remove_xattr(fifo, b"trusted.none").unwrap_err();
    assert_eq!(removed.kind(), ErrorKind::NoAttribute);
}

#[test]
fn times_have_no_more_digits_than_the_inode() {
    let Some(Made { fs, .. }) = filesystem("-I 128") else {
        return;
    };
    let file = make(&fs, fs.root(), b"file", NewKind::Regular);
    fs.write_at(file, 0, b"kept in memory").unwrap();
    assert_eq!(fs.metadata(file).unwrap().modified.nanoseconds, 0);
}

#[test]
fn files_without_a_name_go_when_it_is_closed() {
    let Some(Made {
        fs,
        image,
        _directory,
    }) = filesystem("")
    else {
        return;
    };
    let file = make(&fs, fs.root(), b"file", NewKind::Regular);
    fs.write_at(file, 0, &vec![1; 100_000]).unwrap();
    fs.hold(file);
    fs.unlink(fs.root(), b"file").unwrap();
    fs.create_unnamed(fs.root(), &NewAttributes::for_root(0o600))
        .unwrap();
    fs.close().unwrap();
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}
