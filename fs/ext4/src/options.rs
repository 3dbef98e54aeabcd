//! The options for opening a filesystem for writing.

use std::time::Duration;

use diskfs_vfs::Timestamp;

/// The options for opening a filesystem for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The memory limit of the metadata caches, in bytes, besides the memory for a commit.
    pub cache_bytes: u64,
    /// The longest time until a change is made durable without a request. With `None` this happens
    /// only on request, when the journal has no more room, or when the filesystem is closed. Then
    /// changes that fit into one transaction survive a crash either completely or not at all.
    pub commit_interval: Option<Duration>,
    /// The grouping of changes into transactions.
    pub grouping: TransactionGrouping,
    /// The use of the blocks that the filesystem has reserved for root.
    pub root_reserve: RootReserve,
    /// The time that all changes record instead of the present time. Then random numbers (inode
    /// generations, the choice of a group) are fixed, too, so that the same changes in the same
    /// order write the same bytes.
    pub fixed_time: Option<Timestamp>,
}

/// The grouping of changes into transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransactionGrouping {
    /// Each operation is independent: a failed one does not affect others.
    #[default]
    No,
    /// Closing commits all changes, or none if writing a file's contents back fails. Changes that
    /// exceed one transaction are committed earlier.
    UntilClosed,
    /// The behaviour of [`UntilClosed`](Self::UntilClosed), but an operation that does not fit into
    /// the one transaction fails with `NoSpace`. So does an operation that needs blocks which
    /// become free only with the commit of an earlier change.
    InOneTransaction,
}

/// The use of the blocks that a filesystem has reserved for root (`s_r_blocks_count`). The
/// filesystem does not know which user writes, so one answer applies to all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RootReserve {
    /// They stay free, as for ordinary users.
    #[default]
    Keep,
    /// They may be allocated, as for root.
    Use,
    /// All free blocks may be allocated, including those that Linux keeps free for delayed
    /// allocation. For a new filesystem that is filled before anybody mounts it.
    UseAll,
}

impl Default for WriteOptions {
    /// Returns 16 MiB, 5 seconds as in Linux, and a root reserve that stays free.
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            commit_interval: Some(Duration::from_secs(5)),
            grouping: TransactionGrouping::default(),
            root_reserve: RootReserve::default(),
            fixed_time: None,
        }
    }
}
