//! Blocks of deleted directories that became blocks of files: neither a checkpoint nor a replay
//! writes the directory over the files' contents.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{e2fsck, mke2fs_empty};
use diskfs_block::{BlockRead, Event, Fate, Faulty, Memory, Overlay};
use diskfs_ext4::{Ext4, Options, WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

const DIRS: u32 = 30;

fn make(fs: &dyn FsWrite, dir: InodeNumber, name: &str, kind: NewKind<'_>) -> InodeNumber {
    let attributes = NewAttributes::for_root(0o755);
    fs.create(dir, name.as_bytes(), kind, &attributes).unwrap()
}

/// Creates directories, so that their blocks are in the log, and deletes them.
fn come_and_go(fs: &dyn FsWrite, between: impl Fn()) {
    for n in 0..DIRS {
        let dir = make(fs, fs.root(), &format!("dir-{n}"), NewKind::Directory);
        for file in 0..20 {
            make(fs, dir, &format!("{file}-in-a-directory"), NewKind::Fifo);
        }
    }
    fs.sync().unwrap();
    for n in 0..DIRS {
        let name = format!("dir-{n}");
        let dir = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        for file in 0..20 {
            fs.unlink(dir, format!("{file}-in-a-directory").as_bytes())
                .unwrap();
        }
        fs.rmdir(fs.root(), name.as_bytes()).unwrap();
    }
    between();
}

/// Fills the disk; returns the size of the file.
fn fill(fs: &dyn FsWrite) -> u64 {
    let file = make(fs, fs.root(), "file", NewKind::Regular);
    let mut at = 0;
    let piece = vec![0x5a; 64 << 10];
    while let Ok(done) = fs.write_at(file, at, &piece) {
        at += done as u64;
        if done < piece.len() {
            break;
        }
    }
    at
}

fn check(device: Arc<dyn BlockRead>, len: u64, what: &str) {
    let fs = Ext4::open(device, &Options::default()).unwrap();
    let file = fs.lookup(fs.root(), b"file").unwrap();
    let mut bytes = vec![0; usize::try_from(len).unwrap() + 1];
    assert_eq!(
        fs.read_at(file, 0, &mut bytes).unwrap() as u64,
        len,
        "{what}"
    );
    let wrong = bytes[..bytes.len() - 1]
        .iter()
        .position(|&byte| byte != 0x5a);
    assert_eq!(wrong, None, "{what}: the file has wrong contents");
}

/// Checks the files after e2fsck replayed the journal.
fn check_recovered(device: &dyn BlockRead, at: &Path, len: u64, what: &str) {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    fs::write(at, bytes).unwrap();
    // Exit status 1: e2fsck has recovered the journal.
    let recovered = diskfs_fixtures::command("e2fsck")
        .args(["-E", "journal_only", "-p"])
        .arg(at)
        .status();
    assert!(matches!(recovered.unwrap().code(), Some(0 | 1)), "{what}");
    e2fsck(at);
    check(Arc::new(Memory::new(fs::read(at).unwrap())), len, what);
}

#[test]
fn a_directory_does_not_come_back_over_a_file() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (args, synced_between) in [
        ("-t ext4 -b 1024 -m 0", true),
        ("-t ext4 -b 1024 -m 0", false),
        ("-t ext3 -b 1024 -m 0", true),
        ("-t ext4 -b 1024 -m 0 -O ^metadata_csum", false),
    ] {
        let what = format!("{args}, {synced_between}");
        let image = mke2fs_empty(dir.path(), args, "4M");
        let before = Arc::new(Memory::new(fs::read(&image).unwrap()));
        let device = Arc::new(Faulty::new(Arc::new(Memory::new(before.to_vec())), []));
        let options = WriteOptions {
            commit_interval: None,
            ..WriteOptions::default()
        };
        let fs = WritableExt4::open(device.clone(), &options).unwrap();
        come_and_go(&fs, || {
            if synced_between {
                fs.sync().unwrap();
            }
        });
        let len = fill(&fs);
        fs.sync().unwrap();
        let synced = device.log().events().len();
        fs.close().unwrap();
        drop(fs);
        check(device.clone(), len, &what);
        let log = device.take_log();
        for count in (synced..=log.events().len()).step_by(4) {
            for fate in [Fate::Lost, Fate::Kept] {
                let crashed = Arc::new(Overlay::in_memory(before.clone(), 64 << 20));
                let crash = log.crash_after(count);
                crash.replay(&*crashed, |_, _: &Event| fate).unwrap();
                check(crashed.clone(), len, &what);
                if count == synced {
                    check_recovered(&*crashed, &image, len, &what);
                }
            }
        }
    }
}
