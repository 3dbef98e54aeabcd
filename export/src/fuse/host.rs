//! The host's part of a mount, which a confined process leaves to another one.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::device::{self, Laziness, detach, raise_read_ahead, unmount_if};
use super::mount_table::MountId;
use super::options::{Direction, Options};
use super::server_sockets::{announce_image, announce_mount};
use diskfs_disk::Result;

/// The host's part of a mount: what a process can't do once it is confined.
pub trait Host: fmt::Debug + Send + Sync {
    /// Mounts at `mountpoint`; requests are not answered yet.
    ///
    /// # Errors
    /// As for [`mount`](super::mount).
    fn mount(
        &self,
        mountpoint: &Path,
        direction: Direction,
        options: &Options,
    ) -> Result<(OwnedFd, MountPlace)>;

    /// Unmounts.
    ///
    /// # Errors
    /// `Locked` if the mount is in use; otherwise as for [`detach`](Self::detach).
    fn unmount(&self, place: &MountPlace) -> Result<()>;

    /// Opens the mount's root directory, by which the mount can be synced once it is detached.
    ///
    /// # Errors
    /// Those of open(2).
    fn open_root(&self, place: &MountPlace) -> Result<OwnedFd>;

    /// Detaches a mount, as [`detach`] does.
    ///
    /// # Errors
    /// As for [`detach`].
    fn detach(&self, place: &MountPlace) -> Result<()>;

    /// Raises the kernel's read-ahead, if it may be raised.
    fn raise_read_ahead(&self, id: MountId);

    /// Returns a socket by which other processes notice the end of the one that has it, for those
    /// who know the mount.
    fn announce_mount(&self, id: MountId) -> Option<UnixListener>;

    /// Returns such a socket for those who know the image.
    fn announce_image(&self, image: &Path) -> Option<UnixListener>;

    /// Returns true if the process is in this supplementary group, as far as `/proc` shows it. A
    /// request of the kernel contains only the primary group.
    fn is_in_group(&self, pid: u32, gid: u32) -> bool;

    /// Returns true if a signal is ending the thread's process; `None` if that can't be found out.
    fn is_being_killed(&self, thread: u32) -> Option<bool>;

    /// Returns the rings of a mount, once; `None` if its requests come through `/dev/fuse`.
    fn request_rings(&self, options: &Options) -> Option<RequestRings>;
}

/// Rings of `io_uring` for the requests of one mount. A process that will be confined makes them
/// before: it may make none afterwards.
#[derive(Debug)]
pub struct RequestRings(pub(super) fuser::Rings);

impl RequestRings {
    /// Makes the rings of a mount with these options. Returns `None` if the kernel sends no requests
    /// that way: root has not set `/sys/module/fuse/parameters/enable_uring`, or this machine may
    /// have more than 32 processors.
    pub fn new(options: &Options) -> Option<Self> {
        let rings = fuser::Rings::new(options.thread_count());
        let rings = rings.inspect_err(|error| {
            tracing::debug!("requests come through /dev/fuse: cannot use io_uring: {error}");
        });
        rings.ok().flatten().map(Self)
    }
}

/// The place of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPlace {
    /// The mount point: an absolute path without symlinks.
    pub path: PathBuf,
    /// The device number.
    pub id: MountId,
}

/// This process, without a confinement.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectHost;

impl Host for DirectHost {
    fn mount(
        &self,
        mountpoint: &Path,
        direction: Direction,
        options: &Options,
    ) -> Result<(OwnedFd, MountPlace)> {
        device::mount(mountpoint, direction, options)
    }

    fn unmount(&self, place: &MountPlace) -> Result<()> {
        unmount_if(&place.path, place.id, Laziness::Refuse)
    }

    fn open_root(&self, place: &MountPlace) -> Result<OwnedFd> {
        Ok(File::open(&place.path)?.into())
    }

    fn detach(&self, place: &MountPlace) -> Result<()> {
        detach(&place.path, place.id)
    }

    fn raise_read_ahead(&self, id: MountId) {
        raise_read_ahead(id);
    }

    fn announce_mount(&self, id: MountId) -> Option<UnixListener> {
        announce_mount(id)
    }

    fn announce_image(&self, image: &Path) -> Option<UnixListener> {
        announce_image(image)
    }

    fn is_in_group(&self, pid: u32, gid: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let mut groups = groups.unwrap_or_default().split_whitespace();
        groups.any(|group| group.parse() == Ok(gid))
    }

    fn is_being_killed(&self, thread: u32) -> Option<bool> {
        fuser::is_being_killed(thread)
    }

    fn request_rings(&self, options: &Options) -> Option<RequestRings> {
        RequestRings::new(options)
    }
}
