//! Unmounting of our mounts, with the processes that keep them in use.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::device::{self, Laziness};
use super::mount_table::{KIND, MountEntry, lossy, mounts, mounts_of};
use super::server_sockets::{Ended, Watch};
use diskfs_disk::{Error, ErrorKind, Result};

/// The timeout for the server's end after an unmount. It usually takes milliseconds, but data that
/// was written just before may be gigabytes on a slow disk.
const SERVER_TIMEOUT: Duration = Duration::from_mins(10);

/// The time for which a mount may be in use before that is an error. A program that was just
/// started holds the open files of its parent until it executes, and desktops look into new mounts.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of looking for the mount in other mount namespaces while a server doesn't end.
const NAMESPACE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum number of processes that are named in a message.
const NAMED_USERS_MAX: usize = 5;

/// The result of an unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// The mount is gone, and the process that served it has ended: the image is free.
    Completely,
    /// The mount is gone, but the filesystem is still mounted at another place: one of them was a bind
    /// mount.
    StillMounted,
    /// The mount is detached from the tree, but it is still in use, or its server was not seen to
    /// end.
    ServerMayRun,
}

/// Unmounts the diskfs mount at `mountpoint` and waits for its server to end.
///
/// # Errors
/// Fails with `Invalid` if something else or nothing is mounted there; with `Locked` if the mount
/// is in use (the message names the processes), or if another mount namespace still has it.
pub fn unmount(mountpoint: &Path, laziness: Laziness) -> Result<Unmounted> {
    let mount = find(mountpoint).map_err(|error| error.in_file(mountpoint))?;
    let watch = Watch::begin(mount.id);
    retry_while_in_use(|| device::unmount(&mount.mountpoint, laziness)).map_err(|error| {
        let error = match error.kind() {
            ErrorKind::Locked => name_users(&mount.mountpoint),
            _ => error,
        };
        error.in_file(mountpoint)
    })?;
    if mounts()?.iter().any(|other| other.id == mount.id) {
        return Ok(Unmounted::StillMounted);
    }
    let timeout = match laziness {
        Laziness::Refuse => SERVER_TIMEOUT,
        // The server ends when its last user does.
        Laziness::Detach => Duration::from_millis(200),
    };
    let Some(watch) = watch else {
        return Ok(Unmounted::Completely);
    };
    match wait(watch, &mount, timeout).map_err(|error| error.in_file(mountpoint))? {
        Ended::Yes => Ok(Unmounted::Completely),
        Ended::No => Ok(Unmounted::ServerMayRun),
        Ended::Failed(reason) => Err(not_durable(&reason).in_file(mountpoint)),
    }
}

/// Waits for a server. Fails if another mount namespace still has the mount: the server ends only
/// when that is gone.
fn wait(mut watch: Watch, mount: &MountEntry, timeout: Duration) -> Result<Ended> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = watch.wait(Some(
            left.clamp(Duration::from_millis(1), NAMESPACE_CHECK_INTERVAL),
        ));
        if ended != Ended::No {
            return Ok(ended);
        }
        if left <= NAMESPACE_CHECK_INTERVAL {
            return Ok(Ended::No);
        }
        if let Some((process, place)) = other_namespace(mount) {
            return Err(mounted_in_other_namespace(process, &place));
        }
    }
}

fn mounted_in_other_namespace(process: u32, place: &Path) -> Error {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let (name, place) = (name.trim(), place.display());
    let reason = format!(
        "unmounted here, but still mounted in another mount namespace, that of {name} (pid {process}): \
         the image stays in use"
    );
    let hint =
        format!("end that process, or unmount it there: `nsenter -t {process} -m umount {place}`");
    Error::new(ErrorKind::Locked, reason).with_hint(hint)
}

/// Returns a process of another mount namespace that has the mount, with the mount point there.
/// Only root sees the processes of other users.
fn other_namespace(mount: &MountEntry) -> Option<(u32, PathBuf)> {
    let mut seen = HashSet::from([fs::read_link("/proc/self/ns/mnt").ok()?]);
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|pid| pid.parse().ok())
        else {
            continue;
        };
        let namespace = fs::read_link(process.path().join("ns/mnt"));
        if !namespace.is_ok_and(|namespace| seen.insert(namespace)) {
            continue;
        }
        let there = mounts_of(&process.path()).unwrap_or_default();
        if let Some(found) = there.into_iter().find(|other| other.id == mount.id) {
            return Some((pid, found.mountpoint));
        }
    }
    None
}

/// Retries for a moment while the mount is in use.
fn retry_while_in_use(unmount: impl Fn() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + IN_USE_TIMEOUT;
    loop {
        match unmount() {
            Err(error) if error.kind() == ErrorKind::Locked && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            ended => return ended,
        }
    }
}

fn not_durable(reason: &str) -> Error {
    let reason = format!("unmounted, but some of the written data is not on the image: {reason}");
    Error::new(ErrorKind::Other, reason)
}

/// Waits until no server of this network namespace serves the image any more. A server in another
/// one is not seen.
///
/// # Errors
/// Fails if a server could not make all of the written data durable.
pub fn wait_for_servers(image: &Path) -> Result<()> {
    // Wait for all servers, even if the first one reports a failure.
    let ends: Vec<Ended> = Watch::begin_image(image)
        .into_iter()
        .map(|mut watch| watch.wait(None))
        .collect();
    let bad = ends.into_iter().find_map(|end| match end {
        Ended::Failed(reason) => Some(not_durable(&reason).in_file(image)),
        Ended::Yes | Ended::No => None,
    });
    bad.map_or(Ok(()), Err)
}

/// Returns the entry of the diskfs mount on top at `mountpoint`.
pub(super) fn find(mountpoint: &Path) -> Result<MountEntry> {
    let path = absolute(mountpoint)?;
    let mount = mounts()?
        .into_iter()
        .rfind(|mount| mount.mountpoint == path);
    match mount {
        Some(mount) if mount.kind == KIND => Ok(mount),
        Some(mount) => {
            let reason = format!(
                "the filesystem mounted here has type {}, not fuse.diskfs",
                mount.kind
            );
            Err(Error::new(ErrorKind::Invalid, reason).with_hint("use mount(8) and umount(8)"))
        }
        None => Err(Error::new(ErrorKind::Invalid, "not a mount point")),
    }
}

/// Returns the path as in the mount table. Nothing below a dead mount can be resolved, so only the
/// parent of the mount point is.
fn absolute(mountpoint: &Path) -> Result<PathBuf> {
    let Some(name) = mountpoint.file_name() else {
        return Ok(fs::canonicalize(mountpoint)?);
    };
    let is_link = fs::symlink_metadata(mountpoint).is_ok_and(|m| m.is_symlink());
    if is_link {
        return Ok(fs::canonicalize(mountpoint)?);
    }
    let parent = match mountpoint.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(fs::canonicalize(parent)?.join(name))
}

fn name_users(mountpoint: &Path) -> Error {
    let users = users(mountpoint);
    let reason = match users.as_slice() {
        [] => "the mount is in use".to_owned(),
        some => {
            let named: Vec<&str> = some
                .iter()
                .take(NAMED_USERS_MAX)
                .map(String::as_str)
                .collect();
            let more = some.len().saturating_sub(NAMED_USERS_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("the mount is in use by {}{more}", named.join(", "))
        }
    };
    Error::new(ErrorKind::Locked, reason).with_hint("end these processes, or use --lazy")
}

/// Returns the processes that use something below `mountpoint`, as far as we may inspect them:
/// `bash (pid 123)`.
fn users(mountpoint: &Path) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|process| {
            let process = process.ok()?;
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            let uses = uses(&process.path(), mountpoint);
            let name = || fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            uses.then(|| format!("{} (pid {pid})", name().trim()))
        })
        .collect()
}

fn uses(process: &Path, mountpoint: &Path) -> bool {
    let own = ["cwd", "root", "exe"].map(|link| process.join(link));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let open = open.filter_map(|fd| Some(fd.ok()?.path()));
    own.into_iter()
        .chain(open)
        .any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(mountpoint)))
        || maps(process, mountpoint)
}

/// Returns true if the process maps a file below the mount point: a program or a library that runs
/// from there.
fn maps(process: &Path, mountpoint: &Path) -> bool {
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    maps.split(|&byte| byte == b'\n').any(|line| {
        let path = line
            .iter()
            .position(|&byte| byte == b'/')
            .map(|at| &line[at..]);
        path.is_some_and(|path| {
            Path::new(&OsString::from(lossy(std::ffi::OsStr::from_bytes(path))))
                .starts_with(mountpoint)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_ours_are_taken_away() {
        let error = unmount(Path::new("/proc"), Laziness::Refuse).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.reason().contains("type proc"), "{}", error.reason());
        let error = unmount(Path::new("/etc"), Laziness::Refuse).unwrap_err();
        assert_eq!(error.reason(), "not a mount point");
    }

    #[test]
    fn those_who_use_a_place_are_found() {
        let here = std::env::current_dir().unwrap();
        let me = format!("(pid {})", std::process::id());
        assert!(users(&here).iter().any(|user| user.ends_with(&me)));
    }
}
