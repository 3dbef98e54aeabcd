//! Changes that belong together, on a device of which one write or flush fails. They exist
//! completely or not at all, and the writer knows which.

mod common;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::{e2fsck, mke2fs_empty, run};
use diskfs_block::{BlockWrite, Event, Fault, Faulty, Memory};
use diskfs_ext4::{Ext4, Options, TransactionGrouping, WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, Remains, Result, read_file,
    replace_contents,
};

fn open(device: Arc<dyn BlockWrite>, grouping: TransactionGrouping) -> Result<WritableExt4> {
    let options = WriteOptions {
        commit_interval: None,
        grouping,
        ..WriteOptions::default()
    };
    WritableExt4::open(device, &options)
}

/// Replaces a file's contents, and creates a small file, whose contents are kept in memory, and a
/// directory with a larger file.
fn change(fs: &WritableExt4) -> Result<()> {
    let attributes = NewAttributes::for_root(0o644);
    let root = fs.root();
    let kept = fs.lookup(root, b"kept")?;
    replace_contents(fs, kept, &mut &vec![7; 300_000][..], &mut |_| {
        ControlFlow::Continue(())
    })?;
    let small = fs.create(root, b"small", NewKind::Regular, &attributes)?;
    fs.write_at(small, 0, b"delayed")?;
    let attributes = NewAttributes::for_root(0o755);
    let dir = fs.create(root, b"dir", NewKind::Directory, &attributes)?;
    let large = fs.create(dir, b"large", NewKind::Regular, &attributes)?;
    fs.write_at(large, 5000, &vec![8; 200_000])?;
    fs.unlink(root, b"old")
}

/// Opens, changes and closes a filesystem. Returns what remains after an error; an error of opening
/// counts as success.
fn run_on(device: Arc<dyn BlockWrite>) -> std::result::Result<(), Remains> {
    let fs = open(device, TransactionGrouping::UntilClosed).map_err(|_| Remains::Nothing)?;
    let done = change(&fs).and_then(|()| fs.close());
    done.map_err(|_| fs.abandon().expect("it can be abandoned"))
}

#[derive(Debug, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

fn state(image: &Memory) -> Version {
    let device = Arc::new(Memory::new(image.to_vec()));
    let fs = Ext4::open(device, &Options::default()).unwrap();
    let root = fs.root();
    let contents = |dir, name: &[u8]| {
        let inode = fs.lookup(dir, name).ok()?;
        Some(read_file(&fs, inode, 1 << 20).unwrap())
    };
    let dir = fs.lookup(root, b"dir").ok();
    let large = dir.and_then(|dir| contents(dir, b"large"));
    let found = (contents(root, b"kept"), contents(root, b"small"), large);
    let large = [vec![0; 5000], vec![8; 200_000]].concat();
    let new = (
        Some(vec![7; 300_000]),
        Some(b"delayed".to_vec()),
        Some(large),
    );
    let old = (Some(b"before".to_vec()), None, None);
    let has_old = fs.lookup(root, b"old").is_ok();
    if found == new && !has_old {
        return Version::New;
    }
    assert!(found == old && has_old, "a third state: {:?}", found.1);
    Version::Old
}

/// Creates an image with the files that are changed.
fn image(dir: &Path, args: &str) -> Vec<u8> {
    let path = mke2fs_empty(dir, args, "24M");
    let fs = common::open_for_writing(&path);
    let attributes = NewAttributes::for_root(0o644);
    for name in ["kept", "old"] {
        let file = fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes);
        fs.write_at(file.unwrap(), 0, b"before").unwrap();
    }
    fs.close().unwrap();
    std::fs::read(path).unwrap()
}

/// Returns the numbers of writes and flushes of a run without faults.
fn requests(bytes: &[u8]) -> (u64, u64) {
    let memory = Arc::new(Memory::new(bytes.to_vec()));
    let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
    assert_eq!(run_on(device.clone()), Ok(()));
    assert_eq!(state(&memory), Version::New);
    let log = device.log();
    let flushes = log
        .events()
        .iter()
        .filter(|event| matches!(event, Event::Flush));
    let flushes = flushes.count() as u64;
    (log.events().len() as u64 - flushes, flushes)
}

#[test]
fn whatever_fails_all_of_it_is_there_or_nothing() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in ["-t ext4", "-t ext4 -b 1024 -O ^metadata_csum", "-t ext3"] {
        let bytes = image(dir.path(), args);
        let (writes, flushes) = requests(&bytes);
        let faults = (0..writes)
            .flat_map(|nth| {
                // No disk tears a superblock.
                let torn = Fault::TornWrite {
                    nth,
                    keep_bytes: 1024,
                };
                [Fault::FailWrite { nth }, torn, Fault::PowerCut { nth }]
            })
            .chain((0..flushes).map(|nth| Fault::FailFlush { nth }));
        let mut seen = [0; 3];
        for fault in faults {
            let memory = Arc::new(Memory::new(bytes.clone()));
            let device = Arc::new(Faulty::new(Arc::clone(&memory), [fault]));
            let remains = run_on(device);
            let state = state(&memory);
            match remains {
                Ok(()) | Err(Remains::All) => assert_eq!(state, Version::New, "{args} {fault:?}"),
                Err(Remains::Nothing) => {
                    assert_eq!(state, Version::Old, "{args} {fault:?}");
                    seen[0] += 1;
                }
                Err(Remains::Some) => seen[1] += 1,
            }
            if remains == Err(Remains::All) {
                seen[2] += 1;
            }
            // A device that works again has a filesystem in its previous state: clean.
            let once = !matches!(fault, Fault::PowerCut { .. });
            if once && remains == Err(Remains::Nothing) {
                assert_is_sound(dir.path(), &memory, &format!("{args} {fault:?}"));
            }
            if once {
                assert_ne!(remains, Err(Remains::Some), "{args} {fault:?}");
            }
        }
        assert!(seen[0] > 10 && seen[2] > 0, "{args}: {seen:?}");
    }
}

fn assert_is_sound(dir: &Path, memory: &Memory, what: &str) {
    let path = dir.join("left");
    std::fs::write(&path, memory.to_vec()).unwrap();
    e2fsck(&path);
    let superblock = run("dumpe2fs", &["-h", path.to_str().unwrap()]);
    assert!(!superblock.contains("First error"), "{superblock}");
    // Another try succeeds.
    let device = Arc::new(Memory::new(memory.to_vec()));
    if let Err(e) = open(device, TransactionGrouping::UntilClosed) {
        panic!("{what}: {e}");
    }
}

/// Checks that one transaction does not use space that only its own commit would free.
#[test]
fn one_transaction_does_not_use_what_it_frees() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = image(dir.path(), "-t ext4 -b 1024");
    let attributes = NewAttributes::for_root(0o644);
    for (together, fits) in [
        (TransactionGrouping::UntilClosed, true),
        (TransactionGrouping::InOneTransaction, false),
    ] {
        let memory = Arc::new(Memory::new(bytes.clone()));
        let fs = open(memory.clone(), together).unwrap();
        let root = fs.root();
        let file = fs.create(root, b"f", NewKind::Regular, &attributes);
        let file = file.unwrap();
        let contents = vec![1; 12 << 20];
        replace_contents(&fs, file, &mut &contents[..], &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let again = replace_contents(&fs, file, &mut &contents[..], &mut |_| {
            ControlFlow::Continue(())
        });
        assert_eq!(again.is_ok(), fits, "{again:?}");
        if let Err(e) = again {
            assert_eq!(e.kind(), ErrorKind::NoSpace);
            assert_eq!(fs.abandon().unwrap(), Remains::Nothing);
            assert_eq!(state(&memory), Version::Old);
        }
    }
}
