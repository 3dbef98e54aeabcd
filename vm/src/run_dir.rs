//! The directory with a machine's sockets and memory while it starts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, StatVfsMountFlags, flock, open, statvfs};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::ending_signals;
use diskfs_disk::{Error, ErrorKind, Result};

/// The longest path of a Unix socket: `sun_path` of unix(7), without its NUL.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The prefix of the directories' names.
const PREFIX: &str = "diskfs-vm-";
/// The minimum age of an abandoned directory: a younger one may not be locked yet.
const YOUNG: Duration = Duration::from_mins(1);

/// A directory that only this user can access. It is removed as soon as the machine has opened its
/// files, or when this is dropped. A directory of a killed process is removed by the next process
/// that starts a machine.
#[derive(Debug)]
pub(super) struct RunDir {
    /// The directory; `None` only while this is dropped.
    dir: Option<TempDir>,
    path: PathBuf,
    /// The lock that marks the directory as in use.
    lock: File,
}

/// The directories of this process, which a signal removes.
static DIRS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn dirs() -> MutexGuard<'static, Vec<PathBuf>> {
    DIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of attempts to remove a directory in which a starting machine still creates files,
/// and the pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Removes the directories of all machines that are starting. Afterwards none can be created: the
/// process is about to end.
fn remove_all() {
    let dirs = dirs();
    for _ in 0..ATTEMPTS {
        for dir in &*dirs {
            let _ = fs::remove_dir_all(dir); // Tried again below.
        }
        if !dirs.iter().any(|dir| dir.exists()) {
            break;
        }
        thread::sleep(PAUSE);
    }
    // Never unlocked.
    std::mem::forget(dirs);
}

impl RunDir {
    /// Creates a directory on a filesystem that allows execution (User Mode Linux maps its memory
    /// executable) and has room for the machine's memory. The memory is allocated as the machine
    /// touches it, and a machine that gets none fails in the middle of its work.
    ///
    /// # Errors
    /// Fails with `NoSpace`; the message lists the places that were tried and the problem of each.
    pub(super) fn with_room_for(memory_mib: u32) -> Result<Self> {
        Self::in_first_usable(candidates(), memory_mib)
    }

    fn in_first_usable(candidates: Vec<PathBuf>, memory_mib: u32) -> Result<Self> {
        let mut problems = Vec::new();
        for parent in candidates {
            match problem(&parent, memory_mib) {
                None => match Self::create_in(&parent) {
                    Ok(made) => return Ok(made),
                    Err(error) => problems.push(format!("{}: {error}", parent.display())),
                },
                Some(problem) => problems.push(format!("{}: {problem}", parent.display())),
            }
        }
        let reason = format!(
            "no space left for a microVM's memory of {memory_mib} MiB ({})",
            problems.join("; ")
        );
        let hint = "set TMPDIR to a directory with enough space that is not mounted noexec";
        Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        ending_signals::prepare(remove_all);
        // A signal waits until the directory is known.
        let mut dirs = dirs();
        let dir = private_dir(parent)?;
        let path = dir.path().to_owned();
        dirs.push(path.clone());
        drop(dirs);
        let made = Self {
            lock: File::open(&path)?,
            dir: Some(dir),
            path,
        };
        flock(&made.lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the socket of the machine's disk with that index.
    pub(super) fn disk(&self, index: usize) -> PathBuf {
        self.path().join(format!("disk{index}"))
    }

    /// Returns the socket of the machine's console.
    pub(super) fn console(&self) -> PathBuf {
        self.path().join("console")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        drop(self.dir.take());
        dirs().retain(|dir| *dir != self.path);
    }
}

fn private_dir(parent: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let private = PermissionsExt::from_mode(0o700);
    builder
        .prefix(PREFIX)
        .permissions(private)
        .tempdir_in(parent)
}

/// Removes this user's directories whose processes were killed while a machine started.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        if is_ours && is_abandoned(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path()); // Another process may be removing it, too.
        }
    }
}

fn is_abandoned(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = File::from(open(path, flags, Mode::empty())?);
    let metadata = dir.metadata()?;
    let is_old = metadata.modified()?.elapsed().is_ok_and(|age| age > YOUNG);
    if !is_old || metadata.uid() != geteuid().as_raw() {
        return Ok(false);
    }
    Ok(flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Returns the candidate places, best first: memory, then `$TMPDIR`, then the default directories.
fn candidates() -> Vec<PathBuf> {
    let named = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
    let named = named.map(PathBuf::from);
    let mut all: Vec<PathBuf> = named.into_iter().collect();
    all.extend(["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from));
    all.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    all
}

/// Returns the problem of a directory; `None` if it is suitable.
fn problem(parent: &Path, memory_mib: u32) -> Option<String> {
    let stats = match statvfs(parent) {
        Ok(stats) => stats,
        Err(error) => return Some(io::Error::from(error).to_string()),
    };
    if stats.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Some("it is mounted noexec".to_owned());
    }
    let free_mib = u128::from(stats.f_bavail).saturating_mul(u128::from(stats.f_frsize)) >> 20;
    if free_mib < u128::from(memory_mib) {
        return Some(format!("only {free_mib} MiB are free"));
    }
    // The added name: a slash, the prefix, six letters, and the longest socket name.
    if socket_path_bytes(parent.as_os_str()) > MAX_SOCKET_PATH_BYTES {
        return Some("the path is too long for a socket".to_owned());
    }
    None
}

fn socket_path_bytes(parent: &OsStr) -> usize {
    parent
        .as_bytes()
        .len()
        .saturating_add("/123456/console".len())
        .saturating_add(PREFIX.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let dir = RunDir::in_first_usable(vec![parent.path().to_owned()], 1).unwrap();
        let path = dir.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(dir.disk(99).as_os_str().len() <= MAX_SOCKET_PATH_BYTES);
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_process_has_left_is_taken_away() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("disk0"), "").unwrap();
            let then = std::time::SystemTime::now() - age;
            File::open(&dir).unwrap().set_modified(then).unwrap();
            dir
        };
        let abandoned = make("diskfs-vm-abandoned", YOUNG * 2);
        let held = make("diskfs-vm-held", YOUNG * 2);
        let kept = [
            make("diskfs-vm-new", Duration::ZERO),
            make("other", YOUNG * 2),
        ];
        let lock = File::open(&held).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let dir = RunDir::in_first_usable(vec![parent.path().to_owned()], 1).unwrap();
        assert!(!abandoned.exists());
        assert!(held.exists() && kept.iter().all(|dir| dir.exists()));
        // The process that held the lock has ended.
        drop(lock);
        drop(RunDir::in_first_usable(vec![parent.path().to_owned()], 1).unwrap());
        assert!(!held.exists() && dir.path().exists());
    }

    #[test]
    fn places_without_room_are_named() {
        // proc and sysfs have no free space, and are usually mounted noexec.
        let none = vec![PathBuf::from("/proc"), PathBuf::from("/no/such/place")];
        let error = RunDir::in_first_usable(none, 64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        let reason = error.reason();
        assert!(
            reason.contains("/proc: ") && reason.contains("/no/such/place: "),
            "{reason}"
        );
    }
}
