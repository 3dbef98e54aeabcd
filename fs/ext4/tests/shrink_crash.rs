//! Shrinking on a device whose power fails: a crash leaves a consistent filesystem with the same
//! files, and the same call completes the work.

#![allow(clippy::print_stderr, reason = "figures are printed on request")]

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::populated::{listing, populate, with_late_journal};
use common::resized::{is_clean, repair, states};
use common::{Random, make_tree, mke2fs};
use diskfs_block::{BlockWrite, Fault, Faulty, Memory, WriteLog};
use diskfs_ext4::{Resized, ShrinkOptions, minimum_size, shrink};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, Result, Timestamp};

/// The forms of filesystems as arguments of mke2fs, with the size in KiB, and the share of the
/// space between the smallest size and the present one that remains.
const FORMS: &[(&str, u64, u64)] = &[
    ("-t ext4 -b 1024 -g 1024", 12_000, 10),
    (
        "-t ext4 -b 4096 -g 1024 -O sparse_super2 -J size=4",
        33_000,
        30,
    ),
    (
        "-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg",
        12_000,
        20,
    ),
    ("-t ext4 -b 1024 -O bigalloc -C 4096 -g 1024", 24_000, 10),
    ("-t ext3 -b 1024 -g 1024", 12_000, 10),
    ("-t ext4 -b 1024 -g 1024 -O inline_data -i 2048", 14_000, 10),
    ("-t ext2 -b 1024 -g 1024", 12_000, 20),
    // The record is in free blocks that stay.
    ("-t ext2 -b 1024 -g 1024", 12_000, 99),
    ("-t ext4 -b 1024 -g 1024, the journal late", 12_000, 10),
    ("-t ext3 -b 1024 -g 1024, the journal late", 12_000, 10),
    ("-t ext4 -b 1024 -g 1024 -O ^has_journal", 12_000, 50),
];

/// The mark of a form whose journal is in the second half.
const LATE_JOURNAL: &str = ", the journal late";

/// A time, so that repeated runs write the same bytes.
const TIME: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 0,
};

/// The number of states that are checked for each form.
const STATES: usize = 20;

fn try_shrink(device: &Arc<dyn BlockWrite>, size_bytes: u64) -> Result<Resized> {
    let options = ShrinkOptions {
        size_bytes,
        time: TIME,
    };
    shrink(device, &options, &mut |_| ControlFlow::Continue(()))
}

/// An image before it is shrunk.
struct Before {
    bytes: Vec<u8>,
    listing: Vec<String>,
    size_bytes: u64,
    has_journal: bool,
}

fn before(dir: &Path, (args, kib, share): (&str, u64, u64)) -> Before {
    let image = if let Some(args) = args.strip_suffix(LATE_JOURNAL) {
        with_late_journal(dir, args, kib << 10, 1)
    } else {
        let tree = dir.join("tree");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir(&tree).unwrap();
        make_tree(&tree, 30);
        mke2fs(dir, &tree, &format!("{kib}k"), args)
    };
    populate(&image, &mut Random(0x5eed_0026), 8);
    let bytes = fs::read(&image).unwrap();
    let device: Arc<dyn diskfs_block::BlockRead> = Arc::new(Memory::new(bytes.clone()));
    let smallest = minimum_size(&device).unwrap();
    let present = u64::try_from(bytes.len()).unwrap();
    Before {
        listing: listing(&image),
        size_bytes: smallest + (present - smallest) * share / 100,
        has_journal: !args.contains("ext2") && !args.contains("^has_journal"),
        bytes,
    }
}

/// Checks an image with e2fsck, after the journal was replayed, and its files.
fn check(dir: &Path, bytes: &[u8], before: &Before, what: &str) {
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
    assert!(listing(&path) == before.listing, "{what}");
}

/// Shrinks an image without a fault. Returns the log of writes.
fn undisturbed(dir: &Path, before: &Before, what: &str) -> WriteLog {
    let memory = Arc::new(Memory::new(before.bytes.clone()));
    let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
    let below: Arc<dyn BlockWrite> = device.clone();
    let resized = try_shrink(&below, before.size_bytes).unwrap();
    assert!(
        resized.new_bytes <= before.size_bytes,
        "{what}: {resized:?}"
    );
    check(dir, &memory.to_vec(), before, what);
    device.log()
}

/// Checks states that a crash can leave.
fn crashes(form: (&str, u64, u64)) {
    let dir = common::fast_dir();
    let dir = dir.path();
    let (args, ..) = form;
    let before = before(dir, form);
    let log = undisturbed(dir, &before, args);
    let (mut images, mut completed, mut unclean) = (0, 0, 0);
    for (state, crashed) in states(&log, STATES, &before.bytes) {
        images += 1;
        let what = format!("{args}: {state}");
        if before.has_journal || is_clean(&crashed) {
            check(dir, &crashed, &before, &what);
        }
        let memory = Arc::new(Memory::new(crashed.as_slice()));
        let device: Arc<dyn BlockWrite> = memory.clone();
        match try_shrink(&device, before.size_bytes) {
            Ok(_) => completed += 1,
            Err(e) => {
                // Without a journal, files were being moved.
                let refused = !before.has_journal && !is_clean(&crashed);
                assert!(refused && e.kind() == ErrorKind::Corrupt, "{what}: {e}");
                unclean += 1;
                let repaired = repair(dir, &crashed, &what);
                let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(repaired));
                try_shrink(&device, before.size_bytes)
                    .unwrap_or_else(|e| panic!("{what}: repaired: {e}"));
                continue;
            }
        }
        if images % 3 == 0 || !before.has_journal {
            check(dir, &memory.to_vec(), &before, &what);
        }
    }
    assert!(images > 1 && completed > 0, "{args}: {images}, {completed}");
    assert!(!before.has_journal || unclean == 0, "{args}: {unclean}");
    if std::env::var_os("DISKFS_CRASHES").is_some() {
        eprintln!("{args}: {images} images, {completed} completed, {unclean} unclean");
    }
}

#[test]
fn a_crash_leaves_what_the_same_call_completes() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let wanted = std::env::var("DISKFS_CRASH_FORM").unwrap_or_default();
    for &form in FORMS.iter().filter(|form| form.0.contains(&wanted)) {
        crashes(form);
    }
}

/// Checks that after any failed request the same call completes the work.
#[test]
fn a_failed_request_can_be_repeated() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = common::fast_dir();
    let dir = dir.path();
    let form = FORMS[0];
    let before = before(dir, form);
    let log = undisturbed(dir, &before, form.0);
    let count = u64::try_from(log.events().len()).unwrap();
    let step = match std::env::var("DISKFS_CRASHES") {
        Ok(_) => 1,
        Err(_) => (log.events().len() / 20).max(1),
    };
    for nth in (0..count).step_by(step) {
        for fault in [Fault::FailWrite { nth }, Fault::FailFlush { nth }] {
            let memory = Arc::new(Memory::new(before.bytes.clone()));
            let device: Arc<dyn BlockWrite> = Arc::new(Faulty::new(Arc::clone(&memory), [fault]));
            if try_shrink(&device, before.size_bytes).is_ok() {
                continue;
            }
            let what = format!("{} {fault:?}", form.0);
            let device: Arc<dyn BlockWrite> = memory.clone();
            try_shrink(&device, before.size_bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(dir, &memory.to_vec(), &before, &what);
        }
    }
}
