//! Changes of a mount's options while it is served.

use std::fs::File;
use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use super::mount_table::MountEntry;
use super::options::{Direction, Effect};
use super::unmount::find;

/// The options that a remount changes; `None` keeps an option.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remount {
    /// Read-only or read-write.
    pub direction: Option<Direction>,
    /// The effect of set-user-ID and set-group-ID bits.
    pub suid: Option<Effect>,
    /// The effect of device nodes.
    pub devices: Option<Effect>,
    /// The effect of the execute bits.
    pub execute: Option<Effect>,
}

/// Changes options of the diskfs mount at `mountpoint`. After a change to read-only, the kernel
/// refuses changes. Its server runs on, makes what was written durable within a second or two, as
/// always, and keeps the image open and locked.
///
/// Only the mount point changes, not the kernel's filesystem: thereby the mount table still tells
/// whether the server accepts changes.
///
/// # Errors
/// Fails with `Invalid` if something else or nothing is mounted there; with `Unsupported` if a
/// mount whose image is open read-only would become writable; with `Locked` if files are open for
/// writing on a mount that would become read-only; and with `Denied` without root.
pub fn remount(mountpoint: &Path, changes: Remount) -> Result<()> {
    let mount = find(mountpoint).map_err(|error| error.in_file(mountpoint))?;
    change(&mount, changes).map_err(|error| error.in_file(mountpoint))
}

fn change(mount: &MountEntry, changes: Remount) -> Result<()> {
    if changes.direction == Some(Direction::ReadWrite) && !mount.is_writable {
        let reason = "cannot remount read-write: the image is open read-only";
        return Err(Error::new(ErrorKind::Unsupported, reason)
            .with_hint("unmount it, and mount it again with the option rw"));
    }
    let now = statvfs(&mount.mountpoint).map_err(std::io::Error::from)?;
    let flags = MountFlags::BIND | flags(now.f_flag, changes);
    mount_remount(&mount.mountpoint, flags, c"").map_err(|errno| match errno {
        Errno::BUSY => Error::new(
            ErrorKind::Locked,
            "cannot remount read-only: files are open for writing",
        )
        .with_hint("close them (fuser -vm lists the processes), and repeat the remount"),
        errno => std::io::Error::from(errno).into(),
    })?;
    if flags.contains(MountFlags::RDONLY) && mount.is_writable {
        // The kernel writes its cache back.
        let root = File::open(&mount.mountpoint)?;
        rustix::fs::syncfs(&root).map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Returns the flags of a mount after a change. The kernel keeps those about access times itself.
fn flags(now: StatVfsMountFlags, changes: Remount) -> MountFlags {
    let ignored = |effect: Effect| effect == Effect::Ignored;
    let read_only = |direction: Direction| direction == Direction::ReadOnly;
    let kinds = [
        (
            MountFlags::RDONLY,
            StatVfsMountFlags::RDONLY,
            changes.direction.map(read_only),
        ),
        (
            MountFlags::NOSUID,
            StatVfsMountFlags::NOSUID,
            changes.suid.map(ignored),
        ),
        (
            MountFlags::NODEV,
            StatVfsMountFlags::NODEV,
            changes.devices.map(ignored),
        ),
        (
            MountFlags::NOEXEC,
            StatVfsMountFlags::NOEXEC,
            changes.execute.map(ignored),
        ),
    ];
    let set = kinds
        .into_iter()
        .filter(|(_, kept, wanted)| wanted.unwrap_or(now.contains(*kept)));
    set.map(|(flag, _, _)| flag).collect()
}
