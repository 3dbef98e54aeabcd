//! What is given up half-way leaves the filesystem as it was.

mod common;

use common::{e2fsck, have, mke2fs_empty, open, open_for_writing, run};
use diskfs_vfs::{
    ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, SetMetadata, read_file, replace_contents,
};

#[test]
fn what_was_given_up_was_never_there() {
    if !have("abandoned", &["mke2fs", "e2fsck"]) {
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
        replace_contents(&fs, kept, &mut &b"before"[..], &mut |_| {}).unwrap();
        fs.close().unwrap();

        let fs = open_for_writing(&image);
        replace_contents(&fs, kept, &mut &vec![7; 300_000][..], &mut |_| {}).unwrap();
        let mode = SetMetadata {
            permissions: Some(0o600),
            ..SetMetadata::default()
        };
        fs.set_metadata(kept, &mode).unwrap();
        let dir_attributes = NewAttributes::for_root(0o755);
        let below = fs.create(root, b"dir", NewKind::Directory, &dir_attributes);
        fs.create(below.unwrap(), b"new", NewKind::Regular, &attributes)
            .unwrap();
        fs.abandon().unwrap();
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
        // The log is empty, but nobody has said so yet.
        open_for_writing(&image).close().unwrap();
        e2fsck(&image);
    }
}

#[test]
fn without_a_journal_it_is_refused() {
    if !have("abandoned", &["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext2", "24M");
    let fs = open_for_writing(&image);
    let attributes = NewAttributes::for_root(0o644);
    assert_eq!(fs.abandon().unwrap_err().kind(), ErrorKind::Unsupported);
    fs.create(fs.root(), b"still", NewKind::Regular, &attributes)
        .unwrap();
    fs.close().unwrap();
    e2fsck(&image);
}
