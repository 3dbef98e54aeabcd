//! The options for opening a filesystem for writing.

use std::time::Duration;

/// The options for opening a filesystem for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The memory limit of the metadata caches, in bytes, besides what a commit needs.
    pub cache_bytes: u64,
    /// The longest time that a change waits until it is made durable without anybody asking. `None`: until
    /// somebody asks, the journal has no room for more, or the filesystem is closed; so all that
    /// fits into one transaction is there after a crash, or nothing of it.
    pub commit_interval: Option<Duration>,
    /// The grouping of changes into transactions.
    pub together: Together,
    /// The use of the blocks that the filesystem has reserved for root.
    pub root_reserve: RootReserve,
}

/// The grouping of changes into transactions.
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

/// The use of the blocks that a filesystem has reserved for root (`s_r_blocks_count`). Who
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
