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
mod memory;
mod reading;
mod served;
mod writing;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use diskfs_fixtures::{require_fuse, require_root, until_measured};
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
