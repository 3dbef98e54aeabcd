//! How a filesystem is opened for writing.

use std::time::Duration;

/// How a filesystem is opened for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// How much memory the caches of metadata may take, in bytes, besides what a commit needs.
    pub cache_bytes: u64,
    /// How long a change may wait until it is made durable without anybody asking. `None`: until
    /// somebody asks, the journal has no room for more, or the filesystem is closed; so all that
    /// fits into one transaction is there after a crash, or nothing of it.
    pub commit_interval: Option<Duration>,
    /// Whether all changes until the filesystem is closed belong together.
    pub together: Together,
    /// Whether blocks are given out that the filesystem has reserved for root.
    pub root_reserve: RootReserve,
}

/// Whether all changes until a filesystem is closed belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Together {
    /// Each operation stands for itself: what fails takes nothing else with it.
    #[default]
    No,
    /// Closing commits all of them, or none when writing something back fails. What exceeds one
    /// transaction is committed earlier.
    UntilClosed,
    /// The same, and an operation that exceeds the one transaction fails with `NoSpace`. So does one
    /// that needs blocks which only the commit of another change gives back.
    InOneTransaction,
}

/// Whether blocks are given out that a filesystem has reserved for root (`s_r_blocks_count`). Who
/// writes is not told to the filesystem, so it is one answer for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RootReserve {
    /// They stay free, as for ordinary users.
    #[default]
    Keep,
    /// They are given out, as to root.
    Use,
}

impl Default for WriteOptions {
    /// 16 MiB; 5 seconds, as Linux has it; root's blocks stay free.
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            commit_interval: Some(Duration::from_secs(5)),
            together: Together::default(),
            root_reserve: RootReserve::default(),
        }
    }
}
