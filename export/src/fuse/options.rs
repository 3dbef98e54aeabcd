//! What can be chosen about a mount.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::id_map::IdMap;

/// Who gets in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Whoever mounts it, and nobody else, not even root. The modes on the image don't count: the
    /// image is the user's own, who may read all of it anyway.
    #[default]
    Owner,
    /// Whoever mounts it, and nobody else; modes and ACLs on the image count.
    OwnerChecked,
    /// Everybody whom the modes and ACLs on the image let in, checked by the kernel.
    Everyone,
}

impl Access {
    /// Whether the kernel checks modes and ACLs.
    pub(super) fn checks_permissions(self) -> bool {
        self != Self::Owner
    }
}

/// Whether something on the image takes effect on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does.
    Allowed,
    /// It does not.
    Ignored,
}

/// Whether the mount can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ReadOnly,
    ReadWrite,
}

/// When what a program writes is handed to the filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Writes {
    /// Before `write(2)` returns, which says whether there was room for it. The kernel keeps the pages for reading.
    #[default]
    Through,
    /// Later, by the kernel. Small writes cost little; that there is no room for them, or that the image can't be
    /// written, is an error of `fsync` and `close`.
    Cached,
}

/// What can be chosen about a mount. The defaults are those of `diskfs mount`.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the host shows as the source of the mount: the image's path.
    pub source: PathBuf,
    /// How many threads serve it; `None` for one per core, at least 2 and at most 4.
    pub threads: Option<NonZeroUsize>,
    /// Who gets in.
    pub access: Access,
    /// Whose the files are.
    pub ids: IdMap,
    /// Set-user-id, set-group-id and file capabilities.
    pub suid: Effect,
    /// Device nodes.
    pub devices: Effect,
    /// Running programs.
    pub execute: Effect,
    /// When what is written gets to the filesystem.
    pub writes: Writes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source: PathBuf::from("diskfs"),
            threads: None,
            access: Access::default(),
            ids: IdMap::default(),
            suid: Effect::Ignored,
            devices: Effect::Ignored,
            execute: Effect::Allowed,
            writes: Writes::default(),
        }
    }
}

/// Past this many threads the kernel's queue is what they wait for; each costs a buffer.
const MOST_THREADS_BY_DEFAULT: usize = 4;

/// With one thread, a read that waits for the disk would stop everybody.
const FEWEST_THREADS_BY_DEFAULT: usize = 2;

impl Options {
    pub(super) fn thread_count(&self) -> usize {
        let by_cores = || {
            std::thread::available_parallelism().map_or(FEWEST_THREADS_BY_DEFAULT, |cores| {
                cores
                    .get()
                    .clamp(FEWEST_THREADS_BY_DEFAULT, MOST_THREADS_BY_DEFAULT)
            })
        };
        self.threads.map_or_else(by_cores, NonZeroUsize::get)
    }
}
