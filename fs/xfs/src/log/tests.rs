//! Tests of the whole recovery.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Memory, Overlay};

use crate::bmap::extents_from;
use crate::error::ErrorKind;
use crate::extent::Extent;
use crate::inode::ForkKind;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::cancelled::Cancelled;
use super::log_reader::LogReader;
use super::mapping_change::{ChangeKind, MappingChange};
use super::records::{Record, Records};
use super::replay::Replay;
use super::transactions::Transactions;
use super::{apply_record, collect_cancelled, recover, tail};

/// Writes the recovered state of each image `NAME.img` of the directory `DISKFS_XFS_LOGS` to
/// `NAME.replayed`, for a comparison with the kernel's recovery by other programs.
#[test]
fn replays_images_of_a_directory() {
    let Some(directory) = std::env::var_os("DISKFS_XFS_LOGS") else {
        return;
    };
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("img".as_ref()) {
            continue;
        }
        let device: Arc<dyn BlockRead> = Arc::new(File::open(&path).unwrap());
        let superblock = Superblock::read(&*device).unwrap();
        let start = std::time::Instant::now();
        let outcome = recover(Arc::clone(&device), &superblock);
        let elapsed = start.elapsed();
        let text = match &outcome {
            Ok(recovered) => format!("ok {} {elapsed:?}", recovered.notes.join("; ")),
            Err(e) => format!("{:?} {e}", e.kind()),
        };
        std::fs::write(path.with_extension("outcome"), text).unwrap();
        if let Ok(recovered) = outcome {
            write_changed(&path, &*device, &*recovered.device);
        }
    }
}

/// Writes the changed image as a copy of the original one.
fn write_changed(path: &std::path::Path, base: &dyn BlockRead, replayed: &dyn BlockRead) {
    use std::os::unix::fs::FileExt;
    let target = path.with_extension("replayed");
    std::fs::copy(path, &target).unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&target)
        .unwrap();
    let (mut old, mut new) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..base.size_bytes()).step_by(1 << 20) {
        let len = usize::try_from((base.size_bytes() - at).min(1 << 20)).unwrap();
        base.read_at(at, &mut old[..len]).unwrap();
        replayed.read_at(at, &mut new[..len]).unwrap();
        if old[..len] != new[..len] {
            file.write_all_at(&new[..len], at).unwrap();
        }
    }
}

/// A generator of pseudo-random numbers: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

/// Returns the bytes of a fixture, and its superblock.
fn fixture(name: &str) -> (Arc<dyn BlockRead>, Superblock) {
    let image = diskfs_fixtures::image(name);
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(std::fs::read(image.path()).unwrap()));
    let superblock = Superblock::read(&*device).unwrap();
    (device, superblock)
}

/// Returns the number of damaged logs that a test replays: `DISKFS_DAMAGES`, or `default`.
fn damages(default: u64) -> u64 {
    std::env::var("DISKFS_DAMAGES").map_or(default, |text| text.parse().unwrap())
}

/// Checks that a replay is either complete, or refused for the damage.
fn check(outcome: crate::error::Result<()>, seed: u64) -> bool {
    match outcome {
        Ok(()) => true,
        Err(e) => {
            assert!(
                matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                "{seed}: {e}"
            );
            false
        }
    }
}

#[test]
fn damaged_payloads_are_replayed_or_refused() {
    for name in [
        "xfs-log",
        "xfs-log-rmapbt",
        "xfs-log-cancelled",
        "xfs-log-trees",
    ] {
        let (device, superblock) = fixture(name);
        let mut log = LogReader::new(Arc::clone(&device), &superblock).unwrap();
        let span = tail::find(&mut log).unwrap().unwrap();
        let mut records = Vec::new();
        let mut reader = Records::between(&log, span.tail, span.head).unwrap();
        while let Some(record) = reader.next_for_replay().unwrap() {
            records.push(record);
        }
        let mut complete = 0;
        for seed in 1..=damages(60) {
            let restore = damage(&mut records, seed);
            let outcome = replay(&log, &records, &device, &superblock);
            complete += u64::from(check(outcome, seed));
            for (nth, payload) in restore {
                records[nth].payload = payload;
            }
        }
        assert!(
            complete > 0,
            "{name}: all damages were noticed, also those of contents"
        );
        assert!(check(replay(&log, &records, &device, &superblock), 0));
    }
}

/// Changes some numbers of some records, and returns the payloads before.
fn damage(records: &mut [Record], seed: u64) -> Vec<(usize, Vec<u8>)> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut before = Vec::new();
    for _ in 0..=random.below(3) {
        let nth = random.below(records.len());
        let payload = &mut records[nth].payload;
        before.insert(0, (nth, payload.clone()));
        for _ in 0..=random.below(4) {
            let at = random.below(payload.len());
            payload[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => payload[at] ^ (1 << random.below(8)),
                _ => u8::try_from(random.below(256)).unwrap(),
            };
        }
    }
    before
}

fn replay(
    log: &LogReader,
    records: &[Record],
    device: &Arc<dyn BlockRead>,
    superblock: &Superblock,
) -> crate::error::Result<()> {
    let mut cancelled = Cancelled::default();
    let mut transactions = Transactions::default();
    for record in records {
        apply_record(log, record, &mut transactions, &mut |transaction, _| {
            collect_cancelled(transaction, &mut cancelled)
        })?;
    }
    let mut replay = Replay::new(Arc::clone(device), superblock, cancelled);
    let mut transactions = Transactions::default();
    for record in records {
        apply_record(log, record, &mut transactions, &mut |transaction, at| {
            replay.commit(transaction, at)
        })?;
    }
    replay.finish().map(drop)
}

#[test]
fn damaged_logs_are_replayed_or_refused() {
    for name in ["xfs-log", "xfs-log-stripe", "xfs-log-wrap"] {
        let (device, superblock) = fixture(name);
        let log = LogReader::new(Arc::clone(&device), &superblock).unwrap();
        let (start, end) = (log.byte_of(0), log.byte_of(log.blocks));
        let mut clean = 0;
        for seed in 1..=damages(60) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let overlay = Overlay::in_memory(Arc::clone(&device), 64 << 20);
            for _ in 0..=random.below(4) {
                let sectors = usize::try_from((end - start) / 512).unwrap();
                // Most of the log is empty.
                let range = if random.below(2) == 0 { sectors } else { 800 };
                let sector = random.below(range);
                let within = random.below(512);
                let len = [1, 4, 512 - within][random.below(3)].min(512 - within);
                let bytes = vec![u8::try_from(random.below(256)).unwrap(); len];
                let at = start + u64::try_from(sector * 512 + within).unwrap();
                overlay.write_at(at, &bytes).unwrap();
            }
            let outcome = recover(Arc::new(overlay), &superblock);
            clean += u64::from(check(outcome.map(drop), seed));
        }
        assert!(clean > 0, "{name}");
    }
}

/// Returns the extents of a file, from a device with a clean log.
fn extents(device: Arc<dyn BlockRead>, superblock: &Superblock, inode: u64) -> Vec<Extent> {
    let volume = Volume::new(device, superblock.clone());
    let inode = volume.inode(inode).unwrap().unwrap();
    let extents = extents_from(&volume, &inode, ForkKind::Data, 0);
    extents.collect::<crate::error::Result<_>>().unwrap()
}

#[test]
fn mappings_in_trees_are_changed() {
    let tree = diskfs_fixtures::expected_tree("xfs-log-trees");
    let inode = tree.entry("fragments").unwrap().inode;
    let (device, superblock) = fixture("xfs-log-trees");
    let device = recover(device, &superblock).unwrap().device;
    let before = extents(Arc::clone(&device), &superblock, inode);
    assert!(
        before.len() > 150,
        "the fixture has {} extents",
        before.len()
    );
    let mut replay = Replay::new(device, &superblock, Cancelled::default());
    let mut expected = before.clone();
    let change = |kind, extent: &Extent| MappingChange {
        inode,
        extent: *extent,
        kind,
    };
    for extent in &before {
        let unmap = change(ChangeKind::Unmap, extent);
        if let Err(e) = replay.finish_mapping(&unmap) {
            // The last extent of a leaf, whose other ones are now in the leaf before.
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            continue;
        }
        let map = change(ChangeKind::Map, extent);
        match replay.finish_mapping(&map) {
            Ok(()) => {
                let again = replay.finish_mapping(&map).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Corrupt);
            }
            // The first extent of a leaf goes into the leaf before, which may be full.
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsupported);
                expected.retain(|other| other != extent);
            }
        }
    }
    assert!(expected.len() > before.len() / 2);
    for extent in before.iter().step_by(3) {
        if replay
            .finish_mapping(&change(ChangeKind::Unmap, extent))
            .is_ok()
        {
            expected.retain(|other| other != extent);
        }
    }
    let impossible = MappingChange {
        inode: u64::MAX,
        ..change(ChangeKind::Map, &before[0])
    };
    let impossible = replay.finish_mapping(&impossible).unwrap_err();
    assert_eq!(impossible.kind(), ErrorKind::Corrupt);
    let replayed = replay.finish().unwrap();
    assert_eq!(
        extents(Arc::new(replayed.overlay), &superblock, inode),
        expected
    );
}
