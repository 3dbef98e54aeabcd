//! The options of a mount.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_vfs::FileType;
use diskfs_vfs::parallel::processors;

use super::host::{DirectHost, Host};
use super::id_map::IdMap;

/// The users who can access a mount, and the check of permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Only the user who mounts it has access, not even root. The modes on the image don't count:
    /// the user may read the whole image file anyway.
    #[default]
    Owner,
    /// Only the user who mounts it has access; modes and ACLs on the image are checked.
    OwnerChecked,
    /// Every user has the access that modes and ACLs on the image allow; the kernel checks them.
    Everyone,
}

impl Access {
    /// Returns true if the kernel checks modes and ACLs.
    pub(super) fn checks_permissions(self) -> bool {
        self != Self::Owner
    }
}

/// The choice whether a feature of the image takes effect on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The feature takes effect.
    Allowed,
    /// The feature is ignored.
    Ignored,
}

/// The choice between a read-only and a read-write mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Read-only.
    ReadOnly,
    /// Read-write.
    ReadWrite,
}

/// The time at which written data reaches the filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Writes {
    /// Data is written before `write(2)` returns, so `write(2)` reports a lack of space. The kernel
    /// keeps the pages for reading, unless the handle is only for writing.
    #[default]
    Through,
    /// The kernel writes data later. Small writes are cheap; a lack of space or a failing image is
    /// reported by `fsync` and `close`.
    Cached,
    /// The kernel keeps no contents at all, because others change them, too.
    Direct,
}

/// The options of a mount. The defaults are those of `diskfs mount`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source of the mount that the host shows: the image's path.
    pub source: PathBuf,
    /// The number of threads that serve the mount; `None` for one per core, at least 2 and at most
    /// 4.
    pub threads: Option<NonZeroUsize>,
    /// The type of the root: a directory, or the regular file of a [`DiskFile`](crate::DiskFile).
    /// The mount point is of the same type.
    pub root: FileType,
    /// The users who can access the mount.
    pub access: Access,
    /// The mapping of owners and groups.
    pub ids: IdMap,
    /// The effect of set-user-id and set-group-id bits and of file capabilities.
    pub suid: Effect,
    /// The effect of device nodes.
    pub devices: Effect,
    /// The effect of the execute bits: running programs.
    pub execute: Effect,
    /// The time at which written data reaches the filesystem.
    pub writes: Writes,
    /// The host's part of a read-only mount.
    pub host: Arc<dyn Host>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source: PathBuf::from("diskfs"),
            threads: None,
            root: FileType::Directory,
            access: Access::default(),
            ids: IdMap::default(),
            suid: Effect::Ignored,
            devices: Effect::Ignored,
            execute: Effect::Allowed,
            writes: Writes::default(),
            host: Arc::new(DirectHost),
        }
    }
}

/// The default maximum. More threads would only wait for the kernel's queue, and each costs a
/// buffer.
const MOST_THREADS_BY_DEFAULT: usize = 4;

/// The default minimum. With one thread, a read that waits for the disk would block all others.
const FEWEST_THREADS_BY_DEFAULT: usize = 2;

impl Options {
    pub(super) fn thread_count(&self) -> usize {
        let by_cores = || processors().clamp(FEWEST_THREADS_BY_DEFAULT, MOST_THREADS_BY_DEFAULT);
        self.threads.map_or_else(by_cores, NonZeroUsize::get)
    }
}
