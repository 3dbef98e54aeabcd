//! kill -9 at any moment while versions of a file replace each other: a version whose directory was
//! synced, or a later one, is there afterwards, and complete.
//!
//! Each worker writes a new version beside the old one, syncs it, renames it over the old one,
//! syncs the directory, and records the version outside of the mount. It uses only descriptors
//! below one that was opened on the mount and checked to be FUSE, so that after the server's death
//! the directory under the mount point is never synced by mistake.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use diskfs_fixtures::require;
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

use super::{
    Chance, Format, Mountpoint, Round, SetAtEnd, can_mount, chance_of, diskfs, first_seed, rounds,
    stderr,
};

/// The number of images of a usual run.
const ROUNDS: u64 = 1;

/// The number of kills of one image's server before the whole image is checked.
const KILLS: u64 = 25;

/// The number of parallel workers, each with its own file: the commits of one contain changes of
/// the others.
const WORKERS: usize = 3;

/// The longest life of a server.
const LONGEST_MS: u64 = 250;

const IMAGE_BYTES: u64 = 48 << 20;

/// `FUSE_SUPER_MAGIC` of linux/magic.h.
const FUSE_MAGIC: u32 = 0x6573_5546;

/// The versions of one worker's file.
#[derive(Debug, Default)]
struct Versions {
    /// The last version that was begun; a later one can't exist.
    begun: AtomicU64,
    /// The last version whose directory was synced.
    promised: AtomicU64,
}

/// An image, and the versions that its workers were promised over all kills.
struct Replaced {
    round: Round,
    workers: [Versions; WORKERS],
}

impl Replaced {
    fn new(format: Format, words: &[&str]) -> Self {
        let replaced = Self {
            round: Round::with(format, IMAGE_BYTES, words),
            workers: Default::default(),
        };
        let at = replaced.mount();
        for worker in 0..WORKERS {
            for place in ["new", "now"] {
                std::fs::create_dir_all(at.join(format!("{worker}/{place}"))).unwrap();
            }
        }
        let unmounted = diskfs(["umount".as_ref(), at.as_os_str()]);
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        replaced
    }

    fn mount(&self) -> Mountpoint {
        let at = Mountpoint::new();
        let image = self.round.image();
        let words = ["mount".as_ref(), "--rw".as_ref(), image.as_os_str()];
        let mounted = diskfs(words.into_iter().chain([at.as_os_str()]));
        assert!(mounted.status.success(), "{}", stderr(&mounted));
        at
    }

    /// Mounts, checks the promised versions, lets the workers continue, and kills the server.
    fn write_and_kill(&self, chance: &mut Chance) {
        let at = self.mount();
        let root = Root::open(&at);
        for (worker, versions) in self.workers.iter().enumerate() {
            let found = root.version(worker).map(|file| version_in(worker, &file));
            versions.check(worker, found);
        }
        let lives = Duration::from_millis(1 + chance.below(LONGEST_MS));
        let alone = chance.below(4) == 0;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (worker, versions) in self.workers.iter().enumerate() {
                let (root, mut chance) = (&root, Chance(chance.below(1 << 40) | 1));
                scope.spawn(move || {
                    // The worker ends with the server.
                    let _ = versions.replace_on(root, worker, &mut chance);
                });
            }
            scope.spawn(|| root.make_noise(&over));
            let _over = SetAtEnd(&over);
            std::thread::sleep(lives);
            self.round.kill(&at, alone);
        });
        let image = self.round.image();
        let waited = diskfs(["wait".as_ref(), image.as_os_str()]);
        assert!(waited.status.success(), "{}", stderr(&waited));
    }

    /// Checks the image as a reader sees it, with the journal replayed into memory.
    fn check_unmounted(&self) {
        for (worker, versions) in self.workers.iter().enumerate() {
            let mut operand = self.round.image().into_os_string();
            operand.push(format!(":/{worker}/now/file"));
            let found = diskfs(["cat".as_ref(), operand.as_os_str()]);
            let found = (found.status.code() != Some(3)).then(|| {
                assert!(found.status.success(), "{}", stderr(&found));
                version_in(worker, &found.stdout)
            });
            versions.check(worker, found);
        }
    }

    fn promised(&self) -> u64 {
        let all = self.workers.iter();
        all.map(|versions| versions.promised.load(Ordering::SeqCst))
            .sum()
    }
}

impl Versions {
    fn check(&self, worker: usize, found: Option<u64>) {
        let promised = self.promised.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        let found = found.unwrap_or(0);
        assert!(
            (promised..=begun).contains(&found),
            "worker {worker}: version {found} of {promised} promised and {begun} begun"
        );
    }

    fn replace_on(&self, root: &Root, worker: usize, chance: &mut Chance) -> Result<()> {
        let (new, now) = root.directories(worker)?;
        loop {
            let version = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            // Mostly within a directory, sometimes from one directory into another.
            let from = if chance.below(4) == 0 { &new } else { &now };
            let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
            let file = root.open_at(from, "file.new", flags)?;
            write_all(&file, &contents(worker, version, chance))?;
            rustix::fs::fsync(&file)?;
            drop(file);
            rustix::fs::renameat(from, "file.new", &now, "file")?;
            root.sync_directory(&now)?;
            self.promised.store(version, Ordering::SeqCst);
        }
    }
}

/// A descriptor of the mount's root.
struct Root {
    fd: OwnedFd,
    device: u64,
}

impl Root {
    fn open(at: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = rustix::fs::open(at, flags, Mode::empty()).expect("open the mount's root");
        let magic = rustix::fs::fstatfs(&fd).expect("fstatfs").f_type;
        assert_eq!(u32::try_from(magic), Ok(FUSE_MAGIC), "a mount of FUSE");
        let device = rustix::fs::fstat(&fd).expect("fstat").st_dev;
        Self { fd, device }
    }

    fn open_at(&self, dir: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd> {
        let opened = rustix::fs::openat(dir, name, flags, Mode::from(0o644))?;
        // A dead server can't answer; then nothing is promised.
        let device = rustix::fs::fstat(&opened)?.st_dev;
        assert_eq!(device, self.device, "{name} is on the mount");
        Ok(opened)
    }

    fn directories(&self, worker: usize) -> Result<(OwnedFd, OwnedFd)> {
        let open = |place| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            self.open_at(&self.fd, &format!("{worker}/{place}"), flags)
        };
        Ok((open("new")?, open("now")?))
    }

    fn sync_directory(&self, dir: &OwnedFd) -> Result<()> {
        rustix::fs::fsync(dir)?;
        assert_eq!(rustix::fs::fstat(dir)?.st_dev, self.device);
        Ok(())
    }

    /// Returns the contents of a worker's file.
    fn version(&self, worker: usize) -> Option<Vec<u8>> {
        let (_, now) = self.directories(worker).expect("directories");
        match self.open_at(&now, "file", OFlags::RDONLY) {
            Ok(file) => {
                let mut found = Vec::new();
                std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut found).unwrap();
                Some(found)
            }
            Err(rustix::io::Errno::NOENT) => None,
            Err(error) => panic!("worker {worker}: {error}"),
        }
    }

    /// Makes changes that no worker syncs, so that commits have more contents.
    fn make_noise(&self, over: &AtomicBool) {
        let mut number = 0_u32;
        while !over.load(Ordering::Relaxed) {
            let name = format!("noise{}", number % 40);
            let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
            let made = self
                .open_at(&self.fd, &name, flags)
                .and_then(|file| write_all(&file, &[7; 3000]));
            let other = format!("noise{}", (number + 13) % 40);
            let _ = match number % 3 {
                0 => rustix::fs::renameat(&self.fd, &name, &self.fd, &other),
                1 => rustix::fs::unlinkat(&self.fd, &other, rustix::fs::AtFlags::empty()),
                _ => made,
            };
            number += 1;
        }
    }
}

fn write_all(file: &OwnedFd, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        let written = rustix::io::write(file, data)?;
        data = &data[written..];
    }
    Ok(())
}

/// Returns a repeated line: from a few bytes to some blocks.
fn contents(worker: usize, version: u64, chance: &mut Chance) -> Vec<u8> {
    let most = if chance.below(3) == 0 { 1200 } else { 3 };
    let lines = usize::try_from(chance.below(most)).unwrap() + 1;
    let mut contents = format!("worker {worker} version {version} lines {lines}\n").repeat(lines);
    contents.push_str("end\n");
    contents.into_bytes()
}

/// Returns the version of a worker's file, which must be complete.
fn version_in(worker: usize, file: &[u8]) -> u64 {
    let text = std::str::from_utf8(file).expect("text");
    let first = text.lines().next().unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    let ["worker", of, "version", version, "lines", lines] = words[..] else {
        panic!("worker {worker}: {} bytes, `{first}`", file.len());
    };
    assert_eq!(of.parse(), Ok(worker));
    let whole = format!("{first}\n").repeat(lines.parse().unwrap()) + "end\n";
    assert!(
        whole == text,
        "worker {worker}: {} bytes of version {version}",
        file.len()
    );
    version.parse().unwrap()
}

fn kill_often(format: Format, words: &[&str]) {
    if can_mount().is_none() {
        return;
    }
    for tool in ["mke2fs", "e2fsck", "qemu-img"] {
        if require(tool).is_none() {
            return;
        }
    }
    let seed = first_seed();
    for round in 0..rounds().unwrap_or(ROUNDS) {
        let seed = seed + round;
        let mut chance = chance_of(seed);
        let image = Replaced::new(format, words);
        for kill in 0..KILLS {
            image.write_and_kill(&mut chance);
            if kill % 5 == 0 {
                image.check_unmounted();
            }
        }
        image.check_unmounted();
        image.round.check(&[]);
        let _ = writeln!(
            std::io::stderr(),
            "{format:?} {words:?}: seed {seed}: {KILLS} kills, {} promises kept",
            image.promised()
        );
    }
}

#[test]
fn a_synced_rename_outlives_every_kill() {
    kill_often(Format::Raw, &[]);
}

#[test]
fn a_synced_rename_outlives_every_kill_with_fast_commits() {
    kill_often(Format::Raw, &["-O", "fast_commit"]);
}

#[test]
fn a_synced_rename_outlives_every_kill_with_small_blocks() {
    kill_often(Format::Raw, &["-b", "1024"]);
}

#[test]
fn a_synced_rename_outlives_every_kill_with_small_blocks_and_fast_commits() {
    kill_often(Format::Raw, &["-b", "1024", "-O", "fast_commit"]);
}

#[test]
fn a_synced_rename_outlives_every_kill_in_qcow2() {
    kill_often(Format::Qcow2, &["-O", "fast_commit"]);
}
