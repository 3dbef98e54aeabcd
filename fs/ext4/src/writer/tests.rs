//! Tests of transactions and the journal, on filesystems made by mke2fs. After a power failure at
//! any moment, our own replay and that of e2fsck must show everything that was durable, and each
//! transaction either completely or not at all.

mod fixture;

use std::sync::{Arc, Barrier};

use diskfs_block::{Event, Fate, Fault, Faulty, Overlay};
use diskfs_vfs::{FsRead, InodeNumber};

use fixture::{Image, available, e2fsck, has_errors, is_clean};

use crate::block::FsBlock;
use crate::error::ErrorKind;
use crate::metadata_cache::Key;
use crate::options::WriteOptions;
use crate::writable::WritableExt4;

/// Feature sets with different forms of the journal.
const KINDS: [(&str, &str); 6] = [
    (
        "checksums, 64 bit",
        "-t ext4 -b 4096 -O metadata_csum,64bit",
    ),
    ("blocks of 1 KiB", "-t ext4 -b 1024 -O metadata_csum,64bit"),
    (
        "checksums, 32 bit",
        "-t ext4 -b 1024 -O metadata_csum,^64bit",
    ),
    ("no checksums", "-t ext4 -b 1024 -O ^metadata_csum,^64bit"),
    (
        "no checksums, 64 bit",
        "-t ext4 -b 4096 -O ^metadata_csum,64bit",
    ),
    (
        "fast_commit, orphan_file",
        "-t ext4 -b 1024 -O fast_commit,orphan_file",
    ),
];

/// The writes to a device, and the number of them when each round was known to be durable.
struct Run {
    image: Image,
    log: diskfs_block::WriteLog,
    /// (round, number of events until then)
    durable: Vec<(u32, usize)>,
}

fn options() -> WriteOptions {
    WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    }
}

/// Chooses the fate of each write at random. The superblock, two sectors under one checksum, is not
/// torn: nobody could open the filesystem then.
fn by_chance(seed: u64) -> impl FnMut(usize, &Event) -> Fate {
    const SUPERBLOCK: u64 = 1024;
    let mut chance = Fate::by_chance(seed);
    move |nth, event| match (chance(nth, event), event) {
        (Fate::Torn { .. }, Event::Write { offset, .. }) if *offset <= SUPERBLOCK => Fate::Lost,
        (fate, _) => fate,
    }
}

/// Gives all files a new owner in each of `rounds` rounds, and waits until each round is durable.
fn run(what: &str, args: &str, rounds: u32) -> Run {
    let image = Image::new(what, args, "16M", 100);
    let faulty = Arc::new(Faulty::new(image.memory(), []));
    let fs = WritableExt4::open(faulty.clone(), &options()).unwrap();
    let mut durable = vec![(0, 0)];
    for round in 1..=rounds {
        image.own(&fs, round).unwrap();
        fs.core.sync().unwrap();
        durable.push((round, faulty.log().events().len()));
    }
    drop(fs);
    let log = faulty.take_log();
    Run {
        image,
        log,
        durable,
    }
}

impl Run {
    /// Returns the device after a crash after `count` events.
    fn crashed(&self, count: usize, fate: impl FnMut(usize, &Event) -> Fate) -> Arc<Overlay> {
        let device = Overlay::in_memory(self.image.memory(), 64 << 20);
        self.log.crash_after(count).replay(&device, fate).unwrap();
        Arc::new(device)
    }

    /// Returns the last round that was durable then.
    fn durable_at(&self, count: usize) -> u32 {
        let before = self.durable.iter().filter(|(_, at)| *at <= count);
        before.map(|(round, _)| *round).max().unwrap()
    }

    fn check(&self, count: usize, device: Arc<Overlay>) -> u32 {
        let what = &self.image.what;
        let round = self.image.owner(device).unwrap_or_else(|| {
            panic!("{what}: half a transaction after {count} events");
        });
        let durable = self.durable_at(count);
        assert!(
            round >= durable,
            "{what}: {round} after {count}, not {durable}"
        );
        round
    }
}

#[test]
fn each_crash_leaves_whole_transactions() {
    if !available() {
        return;
    }
    for (what, args) in KINDS {
        let run = run(what, args, 6);
        let events = run.log.events().len();
        for count in 0..=events {
            let seed = u64::try_from(count).unwrap();
            run.check(count, run.crashed(count, |_, _| Fate::Lost));
            run.check(count, run.crashed(count, by_chance(seed)));
        }
        let last = run.crashed(events, |_, _| Fate::Kept);
        assert_eq!(run.check(events, last.clone()), 6, "{what}");
        assert!(is_clean(&*last), "{what}: not closed in good order");
    }
}

#[test]
fn e2fsck_replays_the_same() {
    if !available() {
        return;
    }
    for (what, args) in KINDS {
        let run = run(what, args, 4);
        let events = run.log.events().len();
        for count in (0..=events).step_by(events / 8) {
            let crashed = run.crashed(count, by_chance(7));
            let ours = run.check(count, crashed.clone());
            let repaired = e2fsck(&*crashed, what);
            assert_eq!(run.image.owner(repaired), Some(ours), "{what}: {count}");
        }
    }
}

/// Writes many times more than the log can contain.
#[test]
fn the_log_goes_round() {
    if !available() {
        return;
    }
    let run = run("goes round", "-t ext4 -b 1024 -J size=1 -N 2048", 160);
    let events = run.log.events().len();
    for count in (0..=events).step_by(events / 60) {
        let seed = u64::try_from(count).unwrap();
        let device = run.crashed(count, by_chance(seed));
        let ours = run.check(count, device.clone());
        if count % 5 == 0 {
            let repaired = e2fsck(&*device, "goes round");
            assert_eq!(run.image.owner(repaired), Some(ours), "{count}");
        }
    }
}

/// Journals a block that contains the log's own magic.
#[test]
fn what_looks_like_the_log_is_escaped() {
    if !available() {
        return;
    }
    for (what, args) in KINDS {
        let image = Image::new(what, args, "16M", 3);
        let (file, block) = image.block_of_first();
        let mut content = vec![0xab; image.block_bytes()];
        content[..4].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98]);
        let faulty = Arc::new(Faulty::new(image.memory(), []));
        let fs = WritableExt4::open(faulty.clone(), &options()).unwrap();
        let key = Key::extent_block(file, block);
        let replaced = fs.core.update(&[file], 1, |handle| {
            handle.replace(key, content.clone());
            Ok(())
        });
        replaced.unwrap();
        fs.core.sync().unwrap();
        let log = faulty.log();
        let crashed = Arc::new(Overlay::in_memory(image.memory(), 64 << 20));
        log.crash_after(usize::MAX)
            .replay(&*crashed, |_, _| Fate::Lost)
            .unwrap();
        assert_ne!(
            image.content(&*crashed, block),
            content,
            "{what}: not in the log"
        );
        assert_eq!(image.read_first(crashed.clone()), content[..1], "{what}");
        let repaired = e2fsck(&*crashed, what);
        assert_eq!(image.content(&*repaired, block), content, "{what}");
        drop(fs);
        assert_eq!(
            image.content(&*faulty, block),
            content,
            "{what}: checkpointed"
        );
    }
}

/// Frees a block of metadata that then becomes a file's. Data written to it past the journal must
/// survive at every moment; when the block becomes metadata again, that must be replayed.
#[test]
fn a_freed_block_is_revoked() {
    if !available() {
        return;
    }
    for (what, args) in KINDS {
        let image = Image::new(what, args, "16M", 3);
        let (file, block) = image.block_of_first();
        let size = image.block_bytes();
        let faulty = Arc::new(Faulty::new(image.memory(), []));
        let fs = WritableExt4::open(faulty.clone(), &options()).unwrap();
        let core = &fs.core;
        let key = Key::extent_block(file, block);
        let replace = |value: u8| {
            let replaced = core.update(&[file], 1, |handle| {
                handle.replace(key, vec![value; size]);
                Ok(())
            });
            replaced.unwrap();
            core.sync().unwrap();
        };
        replace(1);
        let forgotten = core.update(&[file], 1, |handle| {
            handle.forget(block);
            Ok(())
        });
        forgotten.unwrap();
        core.sync().unwrap();
        core.device.write_block(block, &vec![2; size]).unwrap();
        core.device.flush().unwrap();
        let as_data = faulty.log().events().len();
        replace(3);
        let again = faulty.log().events().len();
        drop(fs);
        let log = faulty.take_log();
        for count in as_data..=log.events().len() {
            let device = Arc::new(Overlay::in_memory(image.memory(), 64 << 20));
            log.crash_after(count)
                .replay(&*device, by_chance(5))
                .unwrap();
            let found = image.read_first(device.clone());
            assert!(
                found == [2] || found == [3],
                "{what}: {found:?} after {count}"
            );
            assert!(
                count < again || found == [3],
                "{what}: {found:?} after {count}"
            );
            if count % 3 == 0 {
                let repaired = e2fsck(&*device, what);
                assert_eq!(image.content(&*repaired, block)[..1], found, "{what}");
            }
        }
    }
}

/// Runs an operation that changes more than it announced, and more than the log can contain: none
/// of it is written, and earlier durable changes are kept.
#[test]
fn what_the_log_does_not_hold_ends_writing() {
    if !available() {
        return;
    }
    let image = Image::new("too large", "-t ext4 -b 1024 -J size=1", "16M", 20);
    let faulty = Arc::new(Faulty::new(image.memory(), []));
    let fs = WritableExt4::open(faulty.clone(), &options()).unwrap();
    image.own(&fs, 7).unwrap();
    fs.core.sync().unwrap();
    let too_large = fs.core.update(&[], 1, |handle| {
        for block in 9000..10_100 {
            let key = Key::extent_block(12, FsBlock(block));
            handle.replace(key, vec![9; 1024]);
        }
        Ok(())
    });
    too_large.unwrap();
    let e = fs.core.sync().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnly);
    assert!(e.to_string().contains("too large for the journal"), "{e}");
    assert!(image.own(&fs, 8).is_err());
    assert!(
        fs.core.reader.lookup(InodeNumber(2), b"0001").is_ok(),
        "reads go on"
    );
    drop(fs);
    assert_eq!(image.owner(faulty.clone()), Some(7));
    let e = WritableExt4::open(faulty, &options()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
}

/// Lets each write or flush fail once: nobody may be told that a change is durable that is not.
#[test]
fn an_error_of_the_device_ends_writing() {
    if !available() {
        return;
    }
    let image = Image::new("errors", "-t ext4 -b 1024 -J size=1", "16M", 20);
    let mut ended = 0;
    for nth in 0..20 {
        for fault in [
            Fault::FailWrite { nth },
            Fault::FailFlush { nth },
            Fault::PowerCut { nth },
        ] {
            let below = image.memory();
            let faulty = Arc::new(Faulty::new(below.clone(), [fault]));
            let Ok(fs) = WritableExt4::open(faulty.clone(), &options()) else {
                continue;
            };
            let mut durable = 0;
            for round in 1..4 {
                if image.own(&fs, round).is_err() || fs.core.sync().is_err() {
                    ended += 1;
                    break;
                }
                durable = round;
            }
            drop(fs);
            let found = image.owner(below.clone()).unwrap();
            assert!(found >= durable, "{fault:?}: {found}, not {durable}");
            if !matches!(fault, Fault::PowerCut { .. }) && durable < 3 {
                assert!(has_errors(&*below), "{fault:?} is not noted");
            }
        }
    }
    assert!(ended > 10, "{ended}");
}

/// Without a journal the filesystem is not clean from the first commit until it is closed.
#[test]
fn without_a_journal() {
    if !available() {
        return;
    }
    let image = Image::new("no journal", "-t ext4 -O ^has_journal -b 1024", "16M", 50);
    let device = image.memory();
    let fs = WritableExt4::open(device.clone(), &options()).unwrap();
    assert!(is_clean(&*device));
    image.own(&fs, 4).unwrap();
    fs.core.sync().unwrap();
    assert!(!is_clean(&*device));
    assert_eq!(image.owner(device.clone()), Some(4));
    let e = WritableExt4::open(device.clone(), &options()).unwrap_err();
    assert!(e.to_string().contains("not unmounted cleanly"), "{e}");
    drop(fs);
    assert!(is_clean(&*device));
    e2fsck(&*device, "no journal");
}

/// Opening and closing writes nothing, and waits for no disk.
#[test]
fn opened_and_closed() {
    if !available() {
        return;
    }
    let image = Image::new("opened", "-t ext4 -b 1024", "16M", 5);
    let faulty = Arc::new(Faulty::new(image.memory(), []));
    drop(WritableExt4::open(faulty.clone(), &options()).unwrap());
    assert_eq!(faulty.take_log().events(), []);
    assert!(is_clean(&*faulty));
}

const THREADS: usize = 8;
const EACH: u32 = 25;

/// Lets many threads wait for their own changes: they share commits, and all changes are durable.
#[test]
fn commits_are_shared() {
    if !available() {
        return;
    }
    let image = Image::new("threads", "-t ext4 -b 1024 -J size=1", "16M", 64);
    let faulty = Arc::new(Faulty::new(image.memory(), []));
    let fs = WritableExt4::open(faulty.clone(), &options()).unwrap();
    // All threads have changed something before the first waits, so their speed makes no
    // difference.
    let changed = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for nth in 0..THREADS {
            let (fs, files, changed) = (&fs, &image.files, &changed);
            scope.spawn(move || {
                for round in 0..EACH {
                    let number = files[(nth * 7 + round as usize) % files.len()];
                    let at = fs.core.update(&[number], 3, |handle| {
                        let mut inode = handle.inode(number)?;
                        inode.gid = round;
                        handle.store_attributes(&inode)?;
                        handle.extend_or_restart(200)?;
                        inode.uid = round;
                        handle.store_attributes(&inode)?;
                        Ok(handle.transaction())
                    });
                    changed.wait();
                    fs.core.make_durable(at.unwrap()).unwrap();
                }
            });
        }
    });
    drop(fs);
    let log = faulty.take_log();
    let flushes = log.events().iter().filter(|event| **event == Event::Flush);
    // Two flushes for each commit.
    let flushes = flushes.count();
    assert!(flushes < THREADS * EACH as usize, "{flushes} flushes");
    e2fsck(&*faulty, "threads");
}
