//! The FUSE mount: the kernel's view of a filesystem that diskfs serves, and the beginning and end
//! of mounts.
#![cfg(feature = "fuse")]

mod commands;
mod durability;
mod fixtures;
mod guest;
mod helper;
mod killed;
mod lifetime;
mod linux;
mod log;
mod memory;
mod reading;
mod rings;
mod served;
mod sources;
mod writing;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskfs_fixtures::{require_fuse, require_root, until_measured};
use rustix::process::Pid;
use tempfile::TempDir;

/// The path of the program under test.
const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

/// An empty directory to mount at. Dropping it unmounts it.
struct Mountpoint(TempDir);

impl Mountpoint {
    fn new() -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("diskfs-fuse-")
                .tempdir()
                .expect("create the directory"),
        )
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn is_mounted(&self) -> bool {
        diskfs::export::fuse::mounted_at(self.path())
            .expect("/proc")
            .is_some()
    }

    /// Waits until another process has mounted or unmounted it.
    fn wait_until(&self, mounted: bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.is_mounted() != mounted {
            assert!(Instant::now() < deadline, "waited for mounted = {mounted}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mountpoint {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }
}

impl std::ops::Deref for Mountpoint {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.path()
    }
}

/// Runs the program.
fn diskfs(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    Command::new(DISKFS)
        .args(words)
        // The microVM backends of this host don't matter here: tests/vm tests them.
        .env("DISKFS_VM", "none")
        .output()
        .expect("start diskfs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a program that must succeed, and returns its output.
fn run(program: &str, words: &[&OsStr]) -> String {
    let output =
        until_measured(|| diskfs_fixtures::command(program).args(words).output()).expect(program);
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns `Some` if a test that mounts as root can run.
fn can_mount() -> Option<()> {
    require_fuse()?;
    require_root()
}

/// Returns the processes of this program that have `word` on their command line.
fn processes_with(word: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let wanted = word.as_os_str().as_encoded_bytes();
    processes
        .filter_map(|process| {
            let path = process.ok()?.path();
            let words = std::fs::read(path.join("cmdline")).ok()?;
            let mut words = words.split(|&byte| byte == 0);
            let program = Path::new(OsStr::from_bytes(words.next()?));
            let ours = program.file_name() == Some(OsStr::new("diskfs"));
            (ours && words.any(|w| w == wanted)).then_some(path)
        })
        .collect()
}

/// Returns the process that serves a mount of `image` (not its companion), and its broker.
///
/// The broker is the server's child: process numbers begin again, so they say nothing.
fn server_and_broker(image: &Path) -> (Pid, Option<Pid>) {
    let found: Vec<Pid> = processes_with(image)
        .iter()
        .filter_map(|process| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?))
        .collect();
    let is_broker = |pid: &Pid| {
        let parent = status(*pid, "PPid").parse().ok();
        found.contains(&parent.and_then(Pid::from_raw).expect("it has a parent"))
    };
    let broker = found.iter().copied().find(is_broker);
    let server = found.iter().copied().find(|pid| Some(*pid) != broker);
    (server.expect("find the server"), broker)
}

fn server(image: &Path) -> Pid {
    server_and_broker(image).0
}

/// Returns a value of `/proc/PID/status`.
fn status(pid: Pid, key: &str) -> String {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let value = line.and_then(|line| line.strip_prefix(':'));
    value.expect("the kernel shows it").trim().to_owned()
}

/// Sets a flag when it is dropped, also by a panic: threads that wait for the flag would otherwise
/// keep a failed test from ending.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
