//! kill -9 in the middle of an untar: the image's journal is replayed, the filesystem is clean, and
//! synced files are there.
//!
//! `DISKFS_KILL_ROUNDS` sets the number of rounds (50 for the long run), `DISKFS_KILL_SEED` the
//! seed.

mod renames;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskfs_fixtures::require;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Mountpoint, SetAtEnd, can_mount, diskfs, processes_with, run, server, stderr};

/// The number of rounds of a usual run.
const ROUNDS: u64 = 3;

/// The size of the archive: the number of directories and of files in each.
const DIRECTORIES: usize = 60;
const FILES: usize = 100;

/// Each file with a multiple of this number is synced as soon as it is complete.
const SYNCED: usize = 37;

/// The longest time of an untar: longer than one interval of the periodic commit.
const LONGEST_MS: u64 = 6500;

const IMAGE_BYTES: u64 = 256 << 20;

/// A generator of numbers from a seed.
struct Chance(u64);

impl Chance {
    /// Returns the next number below `end` (xorshift, Marsaglia 2003).
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The archive, and the names of its files.
struct Archive {
    path: PathBuf,
    files: Vec<String>,
}

impl Archive {
    fn make(dir: &Path) -> Self {
        let tree = dir.join("tree");
        let mut files = Vec::new();
        for d in 0..DIRECTORIES {
            fs::create_dir_all(tree.join(format!("{d:02}"))).unwrap();
            for f in 0..FILES {
                let name = format!("{d:02}/{f:02}");
                fs::write(tree.join(&name), contents(&name)).unwrap();
                files.push(name);
            }
        }
        let path = dir.join("tree.tar");
        let words = ["-cf".as_ref(), path.as_os_str(), "-C".as_ref()];
        let what = ["--sort=name".as_ref(), ".".as_ref()];
        run("tar", &[&words[..], &[tree.as_os_str()], &what].concat());
        Self { path, files }
    }

    fn unpack(&self, at: &Path) -> Child {
        let mut tar = Command::new("tar");
        let words = ["-xf".as_ref(), self.path.as_os_str(), "-C".as_ref()];
        tar.args(words).arg(at).stderr(Stdio::null());
        tar.spawn().expect("tar")
    }
}

/// Returns contents that only this file has: from a few bytes to some blocks.
fn contents(name: &str) -> Vec<u8> {
    let line = format!("{name}\n").into_bytes();
    let sum = name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte));
    line.repeat(usize::try_from(sum % 1500).unwrap() + 1)
}

/// The image formats, with the same filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Raw,
    Qcow2,
}

/// A round: an image, and the data that was promised to be on it.
struct Round {
    format: Format,
    dir: TempDir,
}

impl Round {
    fn new(format: Format) -> Self {
        Self::with(format, IMAGE_BYTES, &[])
    }

    /// Makes a round with additional options for mke2fs.
    fn with(format: Format, size_bytes: u64, words: &[&str]) -> Self {
        let round = Self {
            format,
            dir: TempDir::new().expect("create a directory"),
        };
        let raw = round.raw();
        File::create(&raw).unwrap().set_len(size_bytes).unwrap();
        let words: Vec<_> = ["-q", "-t", "ext4"].iter().chain(words).collect();
        let words = words.iter().map(|word| OsStr::new(**word));
        let words: Vec<_> = words.chain([raw.as_os_str()]).collect();
        run("mke2fs", &words);
        if format == Format::Qcow2 {
            let words = ["convert", "-O", "qcow2"].map(AsRef::as_ref);
            let image = round.image();
            run(
                "qemu-img",
                &[&words[..], &[raw.as_os_str(), image.as_os_str()]].concat(),
            );
        }
        round
    }

    fn raw(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    fn image(&self) -> PathBuf {
        match self.format {
            Format::Raw => self.raw(),
            Format::Qcow2 => self.dir.path().join("disk.qcow2"),
        }
    }

    /// Unpacks the archive until the server is killed, and returns the files that were synced by
    /// then.
    fn untar_and_kill(&self, archive: &Archive, chance: &mut Chance) -> Vec<String> {
        let at = Mountpoint::new();
        let image = self.image();
        let mounted = diskfs([
            "mount".as_ref(),
            "--rw".as_ref(),
            image.as_os_str(),
            at.as_os_str(),
        ]);
        assert!(mounted.status.success(), "{}", stderr(&mounted));
        let synced = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut tar = archive.unpack(&at);
            scope.spawn(|| sync_some(&at, archive, &synced, &over));
            std::thread::sleep(Duration::from_millis(20 + chance.below(LONGEST_MS)));
            let over = SetAtEnd(&over);
            self.kill(&at, chance.below(2) == 0);
            drop(over);
            tar.wait().expect("wait for tar");
        });
        let waited = diskfs(["wait".as_ref(), image.as_os_str()]);
        assert!(waited.status.success(), "{}", stderr(&waited));
        synced.into_inner().unwrap()
    }

    /// Kills the server; with `all`, also the companion, which would otherwise clean up.
    fn kill(&self, at: &Mountpoint, all: bool) {
        let server = server(&self.image());
        if all {
            let pid = |process: &PathBuf| process.file_name()?.to_str()?.parse().ok();
            for process in processes_with(at).iter().filter_map(pid) {
                let process = Pid::from_raw(process).expect("the process number is valid");
                if process != server {
                    kill_process(process, Signal::KILL).unwrap();
                }
            }
        }
        kill_process(server, Signal::KILL).unwrap();
        if all {
            let _ = Command::new("umount").arg("-l").arg(at.path()).status();
        }
        at.wait_until(false);
    }

    /// Checks the image with all tools after its journal is replayed.
    fn check(&self, synced: &[String]) {
        self.check_image("as it was left");
        let mut operand = self.image().into_os_string();
        operand.push(":/replayed");
        let written = diskfs(["touch".as_ref(), operand.as_os_str()]);
        assert!(written.status.success(), "{}", stderr(&written));
        self.check_image("when it was replayed");
        let raw = self.dir.path().join("checked.img");
        let words = ["convert", "-O", "raw", "-f"].map(AsRef::as_ref);
        let format = match self.format {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
        };
        let image = self.image();
        let paths = [format.as_ref(), image.as_os_str(), raw.as_os_str()];
        run("qemu-img", &[&words[..], &paths].concat());
        let checked = run("e2fsck", &["-fn".as_ref(), raw.as_os_str()]);
        assert!(!checked.contains("recover"), "{checked}");
        self.check_contents(synced);
    }

    fn check_image(&self, when: &str) {
        if self.format == Format::Raw {
            return;
        }
        let mut qemu_img = Command::new("qemu-img");
        let checked = qemu_img.args(["check", "-f", "qcow2"]).arg(self.image());
        let checked = checked.output().unwrap();
        // 3: only leaked clusters.
        let fine = matches!(checked.status.code(), Some(0 | 3));
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(fine, "{when}: {said}{}", stderr(&checked));
    }

    fn check_contents(&self, synced: &[String]) {
        if synced.is_empty() {
            return;
        }
        let image = self.image().into_os_string();
        let paths = synced.iter().map(|name| format!("/{name}").into());
        let words = ["cat".into(), image].into_iter().chain(paths);
        let found = diskfs(words);
        assert!(found.status.success(), "{}", stderr(&found));
        let expected: Vec<u8> = synced.iter().flat_map(|name| contents(name)).collect();
        assert!(found.stdout == expected, "contents of {synced:?}");
    }
}

/// Follows the untar and syncs some of its files, until the mount is gone or the time is over.
fn sync_some(at: &Path, archive: &Archive, synced: &Mutex<Vec<String>>, over: &AtomicBool) {
    for name in archive.files.iter().step_by(SYNCED) {
        let path = at.join(name);
        while !fs::read(&path).is_ok_and(|found| found == contents(name)) {
            if over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if File::open(&path).and_then(|file| file.sync_all()).is_err() {
            return;
        }
        synced.lock().unwrap().push(name.clone());
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn rounds() -> Option<u64> {
    from_environment("DISKFS_KILL_ROUNDS")
}

fn first_seed() -> u64 {
    from_environment("DISKFS_KILL_SEED").unwrap_or_else(|| std::process::id().into())
}

fn chance_of(seed: u64) -> Chance {
    // Small seeds would give small numbers at first.
    Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
}

fn kill_often(format: Format) {
    if can_mount().is_none() {
        return;
    }
    for tool in ["mke2fs", "e2fsck", "qemu-img", "tar"] {
        if require(tool).is_none() {
            return;
        }
    }
    let seed = first_seed();
    let dir = TempDir::new().expect("create the directory");
    let archive = Archive::make(dir.path());
    // eprintln! would not do: its output is hidden if the test passes.
    let say = |line: String| {
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    for round in 0..rounds().unwrap_or(ROUNDS) {
        let seed = seed + round;
        say(format!(
            "{format:?}: DISKFS_KILL_SEED={seed} DISKFS_KILL_ROUNDS=1"
        ));
        let mut chance = chance_of(seed);
        let began = Instant::now();
        let image = Round::new(format);
        let synced = image.untar_and_kill(&archive, &mut chance);
        let took = began.elapsed().as_secs_f32();
        image.check(&synced);
        say(format!(
            "  killed after {took:.1} s, {} files were synced",
            synced.len()
        ));
    }
}

#[test]
fn an_untar_that_is_killed_leaves_a_sound_filesystem() {
    kill_often(Format::Raw);
}

#[test]
fn an_untar_that_is_killed_leaves_a_sound_qcow2_image() {
    kill_often(Format::Qcow2);
}
