//! Transactions and the journal, on filesystems that mke2fs made: whatever moment the power fails at,
//! our own replay and e2fsck's show what was durable, and each transaction whole or not at all.

mod fixture;

use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, Event, Fate, Faulty, Memory, Overlay};

use fixture::{Image, available, e2fsck, is_clean};

use crate::writable::{WritableExt4, WriteOptions};

/// Feature sets that differ in what the journal looks like.
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

/// What a device was told, and how much of it when a round was known to be durable.
struct Run {
    image: Image,
    log: diskfs_block::WriteLog,
    /// (round, events until then)
    durable: Vec<(u32, usize)>,
}

fn options() -> WriteOptions {
    WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    }
}

/// Gives all files a new owner, so many times, and waits for each.
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
    /// The device after a crash behind so many events.
    fn crashed(&self, count: usize, fate: impl FnMut(usize, &Event) -> Fate) -> Arc<Overlay> {
        let device = Overlay::in_memory(self.image.memory(), 64 << 20);
        self.log.crash_after(count).replay(&device, fate).unwrap();
        Arc::new(device)
    }

    /// The last round that was durable then.
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
    if !available("each_crash_leaves_whole_transactions") {
        return;
    }
    for (what, args) in KINDS {
        let run = run(what, args, 6);
        let events = run.log.events().len();
        for count in 0..=events {
            let seed = u64::try_from(count).unwrap();
            run.check(count, run.crashed(count, |_, _| Fate::Lost));
            run.check(count, run.crashed(count, Fate::by_chance(seed)));
        }
        let last = run.crashed(events, |_, _| Fate::Kept);
        assert_eq!(run.check(events, last.clone()), 6, "{what}");
        assert!(is_clean(&*last), "{what}: not closed in good order");
    }
}

#[test]
fn e2fsck_replays_the_same() {
    if !available("e2fsck_replays_the_same") {
        return;
    }
    for (what, args) in KINDS {
        let run = run(what, args, 4);
        let events = run.log.events().len();
        for count in (0..=events).step_by(events / 8) {
            let crashed = run.crashed(count, Fate::by_chance(7));
            let ours = run.check(count, crashed.clone());
            let repaired = e2fsck(&*crashed, what);
            assert_eq!(run.image.owner(repaired), Some(ours), "{what}: {count}");
        }
    }
}
