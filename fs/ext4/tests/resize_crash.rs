//! Growing on a device whose power fails: a crash leaves the old filesystem, the new one, or
//! something that the same call completes.

mod common;

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::resized::{is_clean, repair, states};
use common::{make_tree, mke2fs, run};
use diskfs_block::{BlockRead, BlockWrite, Event, Fate, Fault, Faulty, Memory, WriteLog};
use diskfs_ext4::{Ext4, NewSpace, Options, ResizeOptions, Resized, resize};
use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, Result, read_file};

/// The forms of filesystems as arguments of mke2fs, with the old and the new size in KiB.
const FORMS: &[(&str, u64, u64)] = &[
    // A new descriptor block from the reserve, and new backups.
    ("-t ext4 -b 1024 -g 512", 9000, 15_000),
    // The second backup moves.
    ("-t ext4 -b 4096 -g 1024 -O sparse_super2", 17_000, 33_000),
    // The reserve is used up, then the filesystem switches to meta_bg.
    (
        "-t ext4 -b 1024 -g 256 -E resize=13000 -O ^64bit -J size=1",
        10_000,
        34_000,
    ),
    ("-t ext4 -b 1024 -O bigalloc -C 8192 -g 2048", 9000, 40_000),
    ("-t ext3 -b 1024 -g 1024", 9000, 14_000),
    ("-t ext2 -b 1024 -g 512", 8000, 15_000),
    ("-t ext2 -b 1024 -g 256 -O ^resize_inode", 6000, 15_000),
    ("-t ext4 -b 1024 -g 512 -O ^has_journal", 6000, 15_000),
    // Only the last group grows.
    ("-t ext2 -b 1024 -O ^resize_inode", 6000, 6100),
];

/// The place of the first backup of the superblock in the first form.
const FIRST_BACKUP_AT: u64 = 513 << 10;

/// The number of states that are checked for each form.
const STATES: usize = 20;

fn grow(device: &Arc<dyn BlockWrite>) -> Result<Resized> {
    let options = ResizeOptions {
        new_space: NewSpace::Unknown,
        ..ResizeOptions::default()
    };
    resize(device, &options, &mut |_| ControlFlow::Continue(()))
}

/// Creates an image with a tree, followed by bytes that look like nothing.
fn image(dir: &Path, (args, old, new): (&str, u64, u64)) -> Vec<u8> {
    let tree = dir.join("tree");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir(&tree).unwrap();
    make_tree(&tree, 5);
    let mut bytes = fs::read(mke2fs(dir, &tree, &format!("{old}k"), args)).unwrap();
    bytes.resize(usize::try_from(new << 10).unwrap(), 0xa7);
    bytes
}

fn size(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[1028..1032].try_into().unwrap())
}

/// Checks an image with e2fsck, after the journal was replayed, and a file's contents.
fn check(dir: &Path, bytes: &[u8], what: &str) -> Vec<u8> {
    let path = dir.join("crashed");
    fs::write(&path, bytes).unwrap();
    let name = path.to_str().unwrap();
    let recovery = diskfs_fixtures::command("e2fsck")
        .args(["-E", "journal_only", "-p", name])
        .output()
        .unwrap();
    assert!(
        matches!(recovery.status.code(), Some(0 | 1)),
        "{what}: {recovery:?}"
    );
    let judged = diskfs_fixtures::command("e2fsck")
        .args(["-fn", name])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "{what}:\n{text}");
    assert!(
        !text.contains("rong") && !text.contains("ix"),
        "{what}:\n{text}"
    );
    let bytes = fs::read(&path).unwrap();
    let fs = Ext4::open(Arc::new(Memory::new(bytes.clone())), &Options::default()).unwrap();
    let a = fs.lookup(fs.root(), b"a").unwrap();
    let file = fs.lookup(a, b"len-300000").unwrap();
    let contents = read_file(&fs, file, 1 << 20).unwrap();
    let expected = (0..300_000u32).map(|n| n.to_le_bytes()[0] ^ 0x5a);
    assert!(contents.into_iter().eq(expected), "{what}");
    bytes
}

/// Checks that e2fsck can repair an unclean image, too, and that no contents are lost.
fn grow_repaired(dir: &Path, bytes: &[u8], what: &str) {
    let repaired = repair(dir, bytes, what);
    check(dir, &repaired, what);
    let memory: Arc<dyn BlockWrite> = Arc::new(Memory::new(repaired));
    grow(&memory).unwrap_or_else(|e| panic!("{what}: repaired: {e}"));
}

/// Grows an image without a fault. Returns the log of writes, and the sizes that it passes.
fn undisturbed(dir: &Path, before: &[u8], what: &str) -> (WriteLog, HashSet<u32>) {
    let memory = Arc::new(Memory::new(before.to_vec()));
    let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
    let below: Arc<dyn BlockWrite> = device.clone();
    let resized = grow(&below).unwrap();
    assert!(resized.new_bytes > resized.old_bytes, "{what}: {resized:?}");
    check(dir, &memory.to_vec(), what);
    let log = device.log();
    let replayed = Memory::new(before.to_vec());
    let mut sizes = HashSet::from([size(before)]);
    for event in log.events() {
        event.replay(&replayed, Fate::Kept).unwrap();
        let mut bytes = [0; 2048];
        replayed.read_at(0, &mut bytes).unwrap();
        sizes.insert(size(&bytes));
    }
    (log, sizes)
}

/// Checks states that a crash can leave. Returns how many were not clean, without a journal.
fn crashes(form: (&str, u64, u64)) -> usize {
    let dir = common::fast_dir();
    let dir = dir.path();
    let (args, ..) = form;
    let before = image(dir, form);
    let (log, sizes) = undisturbed(dir, &before, args);
    let has_journal = !args.contains("ext2") && !args.contains("^has_journal");
    let mut images = 0;
    let mut completed = 0;
    for (state, crashed) in states(&log, STATES, &before) {
        images += 1;
        let what = format!("{args}: {state}");
        if has_journal || is_clean(&crashed) {
            let recovered = check(dir, &crashed, &what);
            assert!(sizes.contains(&size(&recovered)), "{what}");
        } else {
            grow_repaired(dir, &crashed, &what);
            completed += 1;
        }
        let memory = Arc::new(Memory::new(crashed.as_slice()));
        let device: Arc<dyn BlockWrite> = memory.clone();
        grow(&device).unwrap_or_else(|e| panic!("{what}: {e}"));
        let after = memory.to_vec();
        assert_eq!(Some(&size(&after)), sizes.iter().max(), "{what}");
        // Most completed images are the same except for times.
        if images % 4 == 0 || !has_journal {
            check(dir, &after, &what);
            check_backup(dir, &what, size(&after));
        }
    }
    assert!(images > 1, "{args}: {images}");
    completed
}

/// Checks that the first backup superblock has the new size.
fn check_backup(dir: &Path, what: &str, blocks: u32) {
    let path = dir.join("crashed");
    let text = run("dumpe2fs", &[path.to_str().unwrap()]);
    let Some((_, rest)) = text.split_once("Backup superblock at ") else {
        return;
    };
    let block = rest.split(',').next().unwrap();
    let size = text
        .lines()
        .find_map(|line| line.strip_prefix("Block size:"));
    let options = format!("superblock={block}");
    let options = [
        "-o",
        &options,
        "-o",
        &format!("blocksize={}", size.unwrap().trim()),
    ]
    .map(str::to_owned);
    let mut args: Vec<&str> = options.iter().map(String::as_str).collect();
    args.extend(["-h", path.to_str().unwrap()]);
    let backup = run("dumpe2fs", &args);
    let count = backup
        .lines()
        .find_map(|line| line.strip_prefix("Block count:"));
    assert_eq!(count.unwrap().trim(), blocks.to_string(), "{what}");
}

#[test]
fn a_crash_leaves_the_old_or_the_new_size() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    let completed: usize = FORMS.iter().map(|form| crashes(*form)).sum();
    assert!(completed > 0);
}

/// The first backup is written last. Its first sector alone has the new size, but is not valid.
#[test]
fn a_torn_backup_is_written_again() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    let dir = common::fast_dir();
    let dir = dir.path();
    let before = image(dir, FORMS[0]);
    let (log, sizes) = undisturbed(dir, &before, FORMS[0].0);
    let is_backup = |(event, fate): (&Event, Fate)| {
        matches!(event, Event::Write { offset, .. } if *offset == FIRST_BACKUP_AT)
            && matches!(fate, Fate::Torn { .. })
    };
    let mut torn = 0;
    for state in log.states(1).filter(|state| state.open().any(is_backup)) {
        let memory = Arc::new(Memory::new(before.clone()));
        state.replay(&*memory).unwrap();
        let device: Arc<dyn BlockWrite> = memory.clone();
        grow(&device).unwrap();
        let what = state.to_string();
        check(dir, &memory.to_vec(), &what);
        check_backup(dir, &what, *sizes.iter().max().unwrap());
        torn += 1;
    }
    assert!(torn > 0);
}

/// Checks that after any failed request the same call completes the work.
#[test]
fn a_failed_request_can_be_repeated() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = common::fast_dir();
    let dir = dir.path();
    for &form in &[FORMS[0], FORMS[5]] {
        let before = image(dir, form);
        let (log, sizes) = undisturbed(dir, &before, form.0);
        for nth in 0..log.events().len() as u64 {
            for fault in [Fault::FailWrite { nth }, Fault::FailFlush { nth }] {
                let memory = Arc::new(Memory::new(before.clone()));
                let device: Arc<dyn BlockWrite> =
                    Arc::new(Faulty::new(Arc::clone(&memory), [fault]));
                if grow(&device).is_ok() {
                    continue;
                }
                let device: Arc<dyn BlockWrite> = memory.clone();
                grow(&device).unwrap_or_else(|e| panic!("{} {fault:?}: {e}", form.0));
                assert_eq!(Some(&size(&memory.to_vec())), sizes.iter().max());
            }
        }
        check(dir, &before, form.0);
    }
}

/// Lets the kernel replay a journal in which the filesystem grows.
#[test]
fn the_kernel_replays_a_growth() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = common::fast_dir();
    let dir = dir.path();
    let form = FORMS[0];
    let before = image(dir, form);
    let (log, sizes) = undisturbed(dir, &before, form.0);
    let mut mounted = 0;
    for (nth, crash) in log.crashes().enumerate() {
        let memory = Memory::new(before.clone());
        crash.replay(&memory, |_, _| Fate::Lost).unwrap();
        let crashed = memory.to_vec();
        let recovered = check(dir, &crashed, "replayed by e2fsck");
        if size(&crashed) == size(&recovered) {
            continue;
        }
        let path = dir.join("mounted");
        fs::write(&path, &crashed).unwrap();
        // The first mount still uses the old size; the second one corrects the superblock's counts.
        for name in ["one", "two"] {
            let Some(kernel) = common::Mounted::new("the_kernel_replays_a_growth", &path) else {
                return;
            };
            fs::write(kernel.path().join(name), "contents").unwrap();
        }
        mounted += 1;
        let what = format!("crash {nth}, mounted by the kernel");
        let after = check(dir, &fs::read(&path).unwrap(), &what);
        assert!(sizes.contains(&size(&after)), "{what}");
    }
    assert!(mounted > 0);
}
