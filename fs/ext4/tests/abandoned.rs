//! Tests that abandoned changes leave the filesystem as it was.

mod common;

use std::ops::ControlFlow;

use common::{e2fsck, mke2fs_empty, open, open_for_writing, run};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, Remains, SetMetadata, read_file,
    replace_contents,
};

#[test]
fn what_was_given_up_was_never_there() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in ["-t ext4", "-t ext3", "-t ext4 -O fast_commit"] {
        let image = mke2fs_empty(dir.path(), args, "24M");
        let attributes = NewAttributes::for_root(0o644);
        let fs = open_for_writing(&image);
        let root = fs.root();
        let kept = fs.create(root, b"kept", NewKind::Regular, &attributes);
        let kept = kept.unwrap();
        replace_contents(&fs, kept, &mut &b"before"[..], &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        fs.close().unwrap();

        let fs = open_for_writing(&image);
        replace_contents(&fs, kept, &mut &vec![7; 300_000][..], &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let mode = SetMetadata {
            permissions: Some(0o600),
            ..SetMetadata::default()
        };
        fs.set_metadata(kept, &mode).unwrap();
        let dir_attributes = NewAttributes::for_root(0o755);
        let below = fs.create(root, b"dir", NewKind::Directory, &dir_attributes);
        fs.create(below.unwrap(), b"new", NewKind::Regular, &attributes)
            .unwrap();
        assert_eq!(fs.abandon().unwrap(), Remains::Nothing);
        let refused = fs.create(root, b"late", NewKind::Regular, &attributes);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
        drop(fs);

        let fs = open(&image);
        assert_eq!(read_file(&fs, kept, 1 << 20).unwrap(), b"before", "{args}");
        assert_eq!(fs.metadata(kept).unwrap().permissions, 0o644);
        let gone = fs.lookup(fs.root(), b"dir").unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        let superblock = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
        assert!(!superblock.contains("First error"), "{superblock}");
        e2fsck(&image);
    }
}

#[test]
fn without_a_journal_it_was_never_there_until_it_is_durable() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext2", "24M");
    let attributes = NewAttributes::for_root(0o644);
    let fs = open_for_writing(&image);
    let kept = fs.create(fs.root(), b"kept", NewKind::Regular, &attributes);
    let kept = kept.unwrap();
    replace_contents(&fs, kept, &mut &b"before"[..], &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    fs.close().unwrap();
    assert_eq!(fs.abandon().unwrap(), Remains::All);

    let fs = open_for_writing(&image);
    replace_contents(&fs, kept, &mut &vec![7; 300_000][..], &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    fs.create(fs.root(), b"new", NewKind::Regular, &attributes)
        .unwrap();
    assert_eq!(fs.abandon().unwrap(), Remains::Nothing);
    drop(fs);
    e2fsck(&image);
    let fs = open(&image);
    assert_eq!(read_file(&fs, kept, 1 << 20).unwrap(), b"before");
    assert!(fs.lookup(fs.root(), b"new").is_err());

    let fs = open_for_writing(&image);
    fs.create(fs.root(), b"durable", NewKind::Regular, &attributes)
        .unwrap();
    fs.sync().unwrap();
    assert_eq!(fs.abandon().unwrap(), Remains::Some);
}

#[test]
fn nearly_the_whole_journal_is_one_transaction() {
    /// With 16 inodes per block, these need far more blocks than a quarter of the journal's 1024.
    const FILES: u32 = 10_000;
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -N 12000 -J size=4", "64M");
    let attributes = NewAttributes::for_root(0o644);
    let fill = || {
        let fs = open_for_writing(&image);
        for nth in 0..FILES {
            let name = format!("file-{nth}");
            let made = fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes);
            made.unwrap();
        }
        fs
    };
    fill().abandon().unwrap();
    let fs = open(&image);
    let names = fs.read_dir(fs.root(), 0).unwrap().count();
    assert_eq!(names, 3, "`.`, `..` and lost+found");
    drop(fs);
    fill().close().unwrap();
    e2fsck(&image);
    let fs = open(&image);
    let names = fs.read_dir(fs.root(), 0).unwrap().count();
    assert_eq!(names, 3 + FILES as usize);
}
