//! Concurrent operations: reading and writing while a commit waits for the device, and writers of
//! different files.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use common::run;
use diskfs_block::{BlockRead, BlockWrite, File, Memory};
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, SyncFile};

/// A device whose flush waits until it is released.
#[derive(Debug)]
struct Gated {
    device: Memory,
    closed: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicBool,
}

impl Gated {
    fn set_closed(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    fn await_flush(&self) {
        while !self.waiting.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl BlockRead for Gated {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        self.device.read_at(offset, buf)
    }
}

impl BlockWrite for Gated {
    fn write_at(&self, offset: u64, buf: &[u8]) -> diskfs_block::Result<()> {
        self.device.write_at(offset, buf)
    }

    fn flush(&self) -> diskfs_block::Result<()> {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            self.waiting.store(true, Ordering::SeqCst);
            closed = self.changed.wait(closed).unwrap();
        }
        self.device.flush()
    }
}

fn filesystem(size: &str) -> Option<Vec<u8>> {
    if !have(&["mke2fs", "e2fsck"]) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    run(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", image.to_str().unwrap(), size],
    );
    Some(std::fs::read(image).unwrap())
}

fn check(bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::write(&image, bytes).unwrap();
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}

fn options() -> WriteOptions {
    WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    }
}

fn make(fs: &WritableExt4, dir: InodeNumber, name: &str, kind: NewKind<'_>) -> InodeNumber {
    let attributes = NewAttributes::for_root(0o755);
    fs.create(dir, name.as_bytes(), kind, &attributes).unwrap()
}

#[test]
fn nobody_waits_for_a_commit_who_does_not_ask_for_it() {
    let Some(bytes) = filesystem("32M") else {
        return;
    };
    let device = Arc::new(Gated {
        device: Memory::new(bytes),
        closed: Mutex::new(false),
        changed: Condvar::new(),
        waiting: AtomicBool::new(false),
    });
    let fs = Arc::new(WritableExt4::open(device.clone(), &options()).unwrap());
    let dir = make(&fs, fs.root(), "dir", NewKind::Directory);
    let file = make(&fs, dir, "file", NewKind::Regular);
    fs.write_at(file, 0, &vec![5; 100_000]).unwrap();

    device.set_closed(true);
    let syncing = {
        let fs = Arc::clone(&fs);
        thread::spawn(move || fs.sync_file(file, SyncFile::All))
    };
    device.await_flush();

    // The commit of everything so far waits for the device. Its contents are read...
    assert_eq!(fs.lookup(dir, b"file").unwrap(), file);
    assert_eq!(fs.metadata(file).unwrap().size_bytes, 100_000);
    let mut byte = [0];
    fs.read_at(file, 50_000, &mut byte).unwrap();
    assert_eq!(byte, [5]);
    // ...and changed: the same file, the same directory.
    fs.write_at(file, 50_000, &vec![6; 60_000]).unwrap();
    for n in 0..100 {
        make(&fs, dir, &format!("more-{n}"), NewKind::Regular);
    }
    fs.unlink(dir, b"more-7").unwrap();
    assert!(!syncing.is_finished());

    device.set_closed(false);
    syncing.join().unwrap().unwrap();
    fs.read_at(file, 50_000, &mut byte).unwrap();
    assert_eq!(byte, [6]);
    fs.close().unwrap();
    check(&device.device.to_vec());
}

/// Lets threads create, write, rename and remove files of their own, all in one directory and each
/// in one of its own, while commits go on.
#[test]
fn writers_go_on_side_by_side() {
    const THREADS: u32 = 4;
    let rounds = 150;
    let Some(bytes) = filesystem("64M") else {
        return;
    };
    let device = Arc::new(Memory::new(bytes));
    let fs = Arc::new(WritableExt4::open(device.clone(), &options()).unwrap());
    let shared = make(&fs, fs.root(), "shared", NewKind::Directory);
    let work = |thread: u32| {
        let own = make(&fs, fs.root(), &format!("own-{thread}"), NewKind::Directory);
        for round in 0..rounds {
            let name = format!("{thread}-{round}");
            let file = make(&fs, shared, &name, NewKind::Regular);
            let data = vec![thread.to_le_bytes()[0]; 3000 + 100 * usize::try_from(round).unwrap()];
            fs.write_at(file, 0, &data).unwrap();
            let from = name.as_bytes();
            fs.rename(shared, from, own, from, diskfs_vfs::RenameMode::Replace)
                .unwrap();
            let mut again = vec![0; data.len()];
            assert_eq!(fs.read_at(file, 0, &mut again).unwrap(), data.len());
            assert_eq!(again, data);
            if round % 3 == 0 {
                fs.unlink(own, from).unwrap();
            }
            if round % 10 == thread {
                fs.sync_file(file, SyncFile::Data).unwrap();
            }
            assert!(fs.read_dir(shared, 0).unwrap().all(|entry| entry.is_ok()));
        }
        own
    };
    let work = &work;
    let own: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for dir in own {
        // Two of three files, `.` and `..`.
        assert_eq!(fs.read_dir(dir, 0).unwrap().count(), 102);
    }
    assert_eq!(fs.read_dir(shared, 0).unwrap().count(), 2);
    fs.close().unwrap();
    check(&device.to_vec());
}

/// Renames directories across each other, which locks several inodes in every order.
#[test]
fn renames_across_each_other_come_to_an_end() {
    let Some(bytes) = filesystem("32M") else {
        return;
    };
    let device = Arc::new(Memory::new(bytes));
    let fs = WritableExt4::open(device.clone(), &options()).unwrap();
    let dirs: Vec<_> = (0..4)
        .map(|n| make(&fs, fs.root(), &format!("dir-{n}"), NewKind::Directory))
        .collect();
    for (n, &dir) in dirs.iter().enumerate() {
        for m in 0..5 {
            make(&fs, dir, &format!("sub-{n}-{m}"), NewKind::Directory);
        }
    }
    let (fs, dirs) = (&fs, &dirs);
    thread::scope(|scope| {
        for thread in 0..4usize {
            scope.spawn(move || {
                for round in 0..200usize {
                    let from = dirs[(thread + round) % 4];
                    let to = dirs[(thread * 3 + round * 7 + 1) % 4];
                    let name = format!("sub-{}-{}", round % 4, (round + thread) % 5);
                    // Another thread may have been faster.
                    let _ = fs.rename(
                        from,
                        name.as_bytes(),
                        to,
                        name.as_bytes(),
                        diskfs_vfs::RenameMode::NoReplace,
                    );
                }
            });
        }
    });
    let names: usize = dirs
        .iter()
        .map(|&dir| fs.read_dir(dir, 0).unwrap().count() - 2)
        .sum();
    assert_eq!(names, 20);
    fs.close().unwrap();
    check(&device.to_vec());
}

/// Uses a file of the host, so that the test does not cover memory only.
#[test]
fn a_full_filesystem_is_whole() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    run(
        "mke2fs",
        &[
            "-q",
            "-F",
            "-t",
            "ext4",
            "-N",
            "128",
            image.to_str().unwrap(),
            "8M",
        ],
    );
    let fs =
        WritableExt4::open(Arc::new(File::open_read_write(&image).unwrap()), &options()).unwrap();
    for round in 0..3 {
        let mut names = Vec::new();
        let full = loop {
            let name = format!("file-{round}-{}", names.len());
            let attributes = NewAttributes {
                uid: 1000,
                ..NewAttributes::for_root(0o644)
            };
            match fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes) {
                Ok(file) => {
                    names.push(name);
                    if let Err(e) = fs.write_at(file, 0, &vec![1; 150_000]) {
                        break e;
                    }
                }
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), diskfs_vfs::ErrorKind::NoSpace, "{full}");
        assert!(names.len() > 10, "{}", names.len());
        for name in names {
            fs.unlink(fs.root(), name.as_bytes()).unwrap();
        }
    }
    fs.close().unwrap();
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}
