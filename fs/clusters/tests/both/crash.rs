//! Tests of a crash at any moment: the checkers may find lost clusters and the like, but never a
//! cluster that two files share, and everything that was synced is still there.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Faulty, Memory, Overlay};
use diskfs_fixtures::{image, require};
use diskfs_vfs::{
    FileExtentKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode,
};

use crate::common::{fsck_says, read};
use crate::kind::{FilesystemType, KINDS};

/// The number of states that are checked in each round without `DISKFS_ROUNDS`: each takes a process.
const STATES: usize = 120;

const ANY: NewAttributes = NewAttributes::for_root(0o644);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns true if all that the checker reports is allowed after a crash, or was reported before
/// it.
fn is_harmless(kind: &FilesystemType, told: &str, before: &str) -> bool {
    told.lines().all(|line| {
        line.trim().is_empty()
            || before.lines().any(|known| known == line)
            || line.trim_start().starts_with('/')
            || kind.harmless.iter().any(|part| line.contains(part))
    })
}

/// Runs random operations on a few files in one directory, and records the contents at each sync.
fn operate(
    fs: &dyn FsWrite,
    dir: InodeNumber,
    random: &mut Random,
    device: &Faulty<Memory>,
) -> Vec<(usize, Synced)> {
    let mut synced = vec![(device.logged(), BTreeMap::new())];
    let mut changed: Vec<String> = Vec::new();
    for step in 0..60 {
        let name = format!("file number {} with a name", random.below(8));
        let found = fs.lookup(dir, name.as_bytes());
        match (random.below(8), found) {
            (0..=3, Err(_)) => {
                let file = fs
                    .create(dir, name.as_bytes(), NewKind::Regular, &ANY)
                    .unwrap();
                let len = usize::try_from(random.below(9000)).unwrap();
                fs.write_at(
                    file,
                    0,
                    &diskfs_fixtures::pattern(&format!("{name}{step}"), len),
                )
                .unwrap();
            }
            (0, Ok(file)) => {
                fs.write_at(file, random.below(12_000), &[b'w'; 3000])
                    .unwrap();
            }
            (1, Ok(file)) => {
                fs.set_len(file, random.below(9000)).unwrap();
                if random.below(2) == 0 {
                    // Truncate, then extend again before the truncation is committed.
                    fs.set_len(file, random.below(12_000)).unwrap();
                }
            }
            (2, Ok(_)) => fs.unlink(dir, name.as_bytes()).unwrap(),
            (3, Ok(_)) => {
                let other = format!("file number {} with a name", random.below(8));
                if fs.lookup(dir, other.as_bytes()).is_ok() {
                    fs.rename(
                        dir,
                        name.as_bytes(),
                        dir,
                        other.as_bytes(),
                        RenameMode::Replace,
                    )
                    .unwrap();
                    changed.push(other);
                }
            }
            (4, _) => {
                fs.sync().unwrap();
                let files = fs
                    .read_dir(dir, 0)
                    .unwrap()
                    .map(Result::unwrap)
                    .filter(|entry| entry.name.len() > 2);
                let files = files.filter(|entry| !fs.metadata(entry.inode).unwrap().is_dir());
                let files = files.map(|entry| {
                    (
                        String::from_utf8(entry.name).unwrap(),
                        read(fs, entry.inode),
                    )
                });
                synced.push((
                    device.logged(),
                    files.map(|(name, data)| (name, Some(data))).collect(),
                ));
                changed.clear();
                continue;
            }
            (5, _) => {
                let sub = format!("directory {}", random.below(3));
                match fs.lookup(dir, sub.as_bytes()) {
                    Ok(_) => fs.rmdir(dir, sub.as_bytes()).unwrap(),
                    Err(_) => drop(
                        fs.create(dir, sub.as_bytes(), NewKind::Directory, &ANY)
                            .unwrap(),
                    ),
                }
                continue;
            }
            _ => continue,
        }
        // A file that has changed since the sync may have the old or the new state.
        changed.push(name);
        let last = synced.last_mut().unwrap();
        for name in &changed {
            if let Some(data) = last.1.get_mut(name) {
                *data = None;
            }
        }
    }
    fs.close().unwrap();
    synced
}

/// The synced contents by name; `None` for a file that has changed since the sync.
type Synced = BTreeMap<String, Option<Vec<u8>>>;

/// Fails if two files share a cluster: `fsck.exfat` does not look for that everywhere.
fn no_cluster_is_of_two(fs: &dyn FsRead) {
    let cluster = u64::from(fs.statistics().unwrap().block_size);
    let mut owners = BTreeMap::new();
    for entry in diskfs_vfs::walk(fs, fs.root()) {
        let entry = entry.unwrap();
        if entry.metadata.is_dir() {
            continue;
        }
        for extent in fs.extents_of(entry.inode, 0).unwrap() {
            let extent = extent.unwrap();
            let FileExtentKind::Stored { device_offset } = extent.kind else {
                continue;
            };
            for nth in 0..extent.len_bytes.div_ceil(cluster) {
                let other = owners.insert(device_offset + nth * cluster, entry.inode);
                assert_eq!(other, None, "two files have the same cluster");
            }
        }
    }
}

fn crash(kind: &FilesystemType, name: &str, seed: u64) {
    let image = image(name);
    let before = std::fs::read(image.path()).unwrap();
    let (_, intact) = fsck_says(kind.fsck, &image.path());
    let device = Arc::new(Faulty::<Memory>::new(
        Arc::new(Memory::new(before.clone())),
        [],
    ));
    let below: Arc<dyn BlockWrite> = device.clone();
    let fs = (kind.open_writable)(below).unwrap();
    let dir = fs
        .create(fs.root(), b"dir", NewKind::Directory, &ANY)
        .unwrap();
    fs.sync().unwrap();
    let mut random = Random(seed);
    let synced = operate(&*fs, dir, &mut random, &device);
    let log = device.log();
    let base: Arc<dyn BlockRead> = Arc::new(Memory::new(before));
    let file = tempfile::NamedTempFile::new().unwrap();
    let states: Vec<_> = log.states(seed).collect();
    let step = match std::env::var("DISKFS_ROUNDS") {
        Ok(_) => 1,
        Err(_) => (states.len() / STATES).max(1),
    };
    for state in states.into_iter().step_by(step) {
        let Some((_, last)) = synced.iter().rev().find(|(at, _)| *at <= state.seen()) else {
            continue;
        };
        let left = Overlay::in_memory(Arc::clone(&base), 64 << 20);
        state.replay(&left).unwrap();
        let mut bytes = vec![0; usize::try_from(left.size_bytes()).unwrap()];
        left.read_at(0, &mut bytes).unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let (_, told) = fsck_says(kind.fsck, file.path());
        assert!(
            is_harmless(kind, &told, &intact),
            "{name}, seed {seed}, {state}:\n{told}"
        );
        let fs = (kind.open)(Arc::new(Memory::new(bytes))).unwrap();
        no_cluster_is_of_two(&*fs);
        let dir = fs.lookup(fs.root(), b"dir").unwrap();
        for (file, data) in last {
            if let Some(data) = data {
                let inode = fs.lookup(dir, file.as_bytes()).unwrap();
                assert!(
                    read(&*fs, inode) == *data,
                    "{name}, seed {seed}, {state}, {file}"
                );
            }
        }
    }
}

fn at_every_moment(kind: &FilesystemType) {
    if require(kind.fsck).is_none() {
        return;
    }
    let rounds = std::env::var("DISKFS_ROUNDS").map_or(kind.crash_rounds, |n| n.parse().unwrap());
    for seed in 1..=rounds {
        let [first, second] = kind.crashed;
        crash(kind, first, seed * 77 + 1);
        crash(kind, second, seed * 77 + 2);
    }
}

#[test]
fn fat_at_every_moment() {
    at_every_moment(&KINDS[0]);
}

#[test]
fn exfat_at_every_moment() {
    at_every_moment(&KINDS[1]);
}
