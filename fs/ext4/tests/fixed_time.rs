//! With a fixed time, the same changes write the same bytes.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{e2fsck, run};
use diskfs_block::File;
use diskfs_ext4::{TransactionGrouping, WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::copy_in::{CopyInOptions, CopyTo};
use diskfs_vfs::{FsRead, FsWrite, Timestamp, copy_in};

/// Fills a copy of `empty` with the tree, and returns its bytes.
fn filled(empty: &Path, tree: &Path, time: Timestamp) -> Vec<u8> {
    let image = empty.with_extension("filled");
    std::fs::copy(empty, &image).unwrap();
    let device = Arc::new(File::open_read_write(&image).unwrap());
    let options = WriteOptions {
        commit_interval: None,
        grouping: TransactionGrouping::UntilClosed,
        fixed_time: Some(time),
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open(device, &options).unwrap();
    let mut progress = |_: &[u8], _: &_| std::ops::ControlFlow::Continue(());
    let to = CopyTo::Directory(fs.root());
    let copy = CopyInOptions {
        newest_time: Some(time),
        ..CopyInOptions::default()
    };
    copy_in(&fs, tree, to, &copy, &mut progress).unwrap();
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    std::fs::read(&image).unwrap()
}

#[test]
fn the_same_changes_write_the_same_bytes() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    for nth in 0..300_usize {
        let parent = tree.join(format!("{}/{}", nth % 7, nth % 13));
        std::fs::create_dir_all(&parent).unwrap();
        std::fs::write(parent.join(nth.to_string()), vec![7; nth * 97]).unwrap();
    }
    let time = |seconds| Timestamp {
        seconds,
        nanoseconds: 0,
    };
    for features in ["has_journal", "^has_journal", "bigalloc", "inline_data"] {
        let empty = directory.path().join("empty");
        let path = empty.to_str().unwrap();
        run(
            "mke2fs",
            &["-qF", "-t", "ext4", "-O", features, path, "64M"],
        );
        let [first, second] = [0, 0].map(|_| filled(&empty, &tree, time(1_700_000_000)));
        let differing = first
            .iter()
            .zip(&second)
            .position(|(one, other)| one != other);
        assert_eq!(differing, None, "{features}");
        assert!(
            first != filled(&empty, &tree, time(1_700_000_001)),
            "{features}"
        );
    }
}
