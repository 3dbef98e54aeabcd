//! The host's part of a mount, which a confined process leaves to another one.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::device::{detach, raise_read_ahead};
use super::mount_table::MountId;
use super::options::Options;
use super::server_sockets::{announce_image, announce_mount};
use super::{device, options};
use diskfs_disk::Result;

/// The host's part of a mount: what a process can't do once it is confined.
pub trait Host: fmt::Debug + Send + Sync {
    /// Mounts read-only at `mountpoint`; requests are not answered yet.
    ///
    /// # Errors
    /// As for [`mount`](super::mount).
    fn mount(&self, mountpoint: &Path, options: &Options) -> Result<(OwnedFd, MountPlace)>;

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
    fn mount(&self, mountpoint: &Path, options: &Options) -> Result<(OwnedFd, MountPlace)> {
        device::mount(mountpoint, options::Direction::ReadOnly, options)
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
}
