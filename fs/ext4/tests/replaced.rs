//! Files whose contents are replaced, in the two ways that programs use, or that are truncated.
//! After a crash the new contents exist if the old ones are gone.

mod common;

use std::fs;
use std::sync::Arc;

use common::mke2fs_empty;
use diskfs_block::{Event, Fate, Faulty, Memory, Overlay, WriteLog};
use diskfs_ext4::{Ext4, Options, WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{
    FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, SyncFile, shorten,
};

const OLD: &[u8] = b"what the file had before";
const NEW: &[u8] = b"new";

fn make(fs: &dyn FsWrite, name: &str) -> InodeNumber {
    let attributes = NewAttributes::for_root(0o644);
    fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes)
        .unwrap()
}

/// Returns the contents of `file` after a crash; everything open then exists completely or not at
/// all.
fn after_crash(before: &Arc<Memory>, log: &WriteLog, count: usize, fate: Fate) -> Vec<u8> {
    let device = Arc::new(Overlay::in_memory(before.clone(), 64 << 20));
    let crash = log.crash_after(count);
    crash.replay(&*device, |_, _: &Event| fate).unwrap();
    let fs = Ext4::open(device, &Options::default()).unwrap();
    let file = fs.lookup(fs.root(), b"file").unwrap();
    let mut contents = vec![0; 200_000];
    let len = fs.read_at(file, 0, &mut contents).unwrap();
    contents.truncate(len);
    contents
}

/// A filesystem with a file whose contents are durable, on a device that logs the following writes.
struct Started {
    before: Arc<Memory>,
    device: Arc<Faulty<Memory>>,
    fs: WritableExt4,
    file: InodeNumber,
    /// The number of events before.
    begun: usize,
}

fn start(args: &str, size: &str, contents: &[u8]) -> Started {
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), args, size);
    let before = Arc::new(Memory::new(fs::read(image).unwrap()));
    let device = Arc::new(Faulty::new(Arc::new(Memory::new(before.to_vec())), []));
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open(device.clone(), &options).unwrap();
    let file = make(&fs, "file");
    fs.write_at(file, 0, contents).unwrap();
    fs.sync().unwrap();
    let begun = device.log().events().len();
    Started {
        before,
        device,
        fs,
        file,
        begun,
    }
}

/// Replaces the old contents by `replace`, and makes another file durable afterwards.
fn crash_at_each_moment(args: &str, replace: impl Fn(&dyn FsWrite, InodeNumber)) {
    let Started {
        before,
        device,
        fs,
        file,
        begun,
    } = start(args, "16M", OLD);
    replace(&fs, file);
    let other = make(&fs, "other");
    fs.sync_file(other, SyncFile::All).unwrap();
    let done = device.log().events().len();
    fs.close().unwrap();
    let log = device.take_log();
    for count in begun..=log.events().len() {
        for fate in [Fate::Lost, Fate::Kept] {
            let found = after_crash(&before, &log, count, fate);
            let is_old = found == OLD && count < done;
            assert!(
                is_old || found == NEW,
                "{args}: {:?} after {count} of {begun}..{done}",
                String::from_utf8_lossy(&found)
            );
        }
    }
}

const MATRIX: [&str; 3] = ["-t ext4", "-t ext3 -b 1024", "-t ext4 -O inline_data"];

#[test]
fn renamed_over() {
    if !have(&["mke2fs"]) {
        return;
    }
    for args in MATRIX {
        crash_at_each_moment(args, |fs, _| {
            let new = make(fs, "file.new");
            fs.write_at(new, 0, NEW).unwrap();
            fs.rename(
                fs.root(),
                b"file.new",
                fs.root(),
                b"file",
                RenameMode::Replace,
            )
            .unwrap();
        });
    }
}

#[test]
fn cut_to_nothing_and_written() {
    if !have(&["mke2fs"]) {
        return;
    }
    for args in MATRIX {
        crash_at_each_moment(args, |fs, file| {
            fs.set_len(file, 0).unwrap();
            fs.write_at(file, 0, NEW).unwrap();
        });
    }
}

/// Checks that after a crash the file has its old contents or the truncated ones.
fn crash_while_it_is_cut(args: &str, old: &[u8], size_bytes: u64) {
    let Started {
        before,
        device,
        fs,
        file,
        begun,
    } = start(args, "32M", old);
    shorten(&fs, file, size_bytes).unwrap();
    fs.close().unwrap();
    let log = device.take_log();
    let new = &old[..usize::try_from(size_bytes).unwrap()];
    let mut seen = [false; 2];
    for count in begun..=log.events().len() {
        for fate in [Fate::Lost, Fate::Kept] {
            let found = after_crash(&before, &log, count, fate);
            let is = [found == old, found == new];
            assert!(
                is != [false; 2],
                "{args}: cut to {size_bytes}: after {count}"
            );
            seen = [seen[0] || is[0], seen[1] || is[1]];
        }
    }
    assert_eq!(seen, [true; 2], "{args}: cut to {size_bytes}");
}

#[test]
fn cut_within_a_block_or_a_cluster() {
    if !have(&["mke2fs"]) {
        return;
    }
    let zeroes_first = [vec![0; 3000], vec![b'z'; 1000]].concat();
    for args in ["-t ext4", "-t ext3 -b 1024", "-t ext4 -O bigalloc -C 65536"] {
        for size in [90_000, 81_920, 66_000, 65_536, 100] {
            crash_while_it_is_cut(args, &vec![b'o'; 100_000], size);
        }
        crash_while_it_is_cut(args, &zeroes_first, 2000);
    }
}
