//! The filesystem, being written.
//!
//! [`Core`] is what every part of writing shares: the volume to read with, the device, the
//! transactions, the journal, the allocator, the locks. An operation (`namespace`, `contents`,
//! `attributes`) locks the inodes that it is about, opens a [`Handle`], and changes blocks of
//! metadata and inodes through it.
//!
//! # Lock order
//!
//! 1. `renames` (renames of directories to another directory, one at a time);
//! 2. locks of inodes ([`crate::locks`]), all that an operation needs at once;
//! 3. a handle: opened without waiting while inodes are locked, with waiting only while none is;
//! 4. the orphan list;
//! 5. what attributes share;
//! 6. an allocator's block group, one at a time;
//! 7. a shard of the pool; then the state of the transactions, which is never held while anything
//!    else is taken.
//!
//! A commit ([`commit`]) takes none of 1 to 5: it waits for open handles, and those never wait for
//! a lock of 1 or 2 (the operation has them before it opens its handle). Nobody goes on in another
//! transaction with a lock of 4 or 5.

pub(crate) mod attributes;
mod chattr;
mod commit;
mod contents;
mod durable;
pub(crate) mod fast_commits;
mod log;
mod mount;
mod namespace;
mod orphans;
mod sync;
#[cfg(test)]
mod tests;
mod uuid;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diskfs_vfs::{Holds, Timestamp};

use crate::allocator::Allocator;
use crate::delayed::DelayedFiles;
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::ext4::Ext4;
use crate::handle::Handle;
use crate::locks::InodeLocks;
use crate::options::Together;
use crate::pool::BlockPool;
use crate::shared_attributes::SharedAttributes;
use crate::transaction::{Abort, Context, Ended, Touched, TransactionHandle, Transactions};
use crate::volume::Volume;

pub(crate) use commit::start_committing;
pub(crate) use contents::start_writing_back;
pub(crate) use durable::Durable;
pub(crate) use log::Log;
pub(crate) use orphans::Orphans;
pub use uuid::{UuidChange, uuid_change};

/// What every part of writing shares. See the [module](self).
#[derive(Debug)]
pub(crate) struct Core {
    /// Reads what is there now.
    pub(crate) reader: Ext4,
    /// To write files' contents, and blocks of metadata to their places.
    pub(crate) device: DeviceWriter,
    pub(crate) transactions: Transactions,
    /// Used by whoever commits only.
    pub(crate) log: Mutex<Log>,
    pub(crate) allocator: Allocator,
    pub(crate) locks: InodeLocks,
    pub(crate) touched: Touched,
    pub(crate) orphans: Orphans,
    pub(crate) delayed: DelayedFiles,
    pub(crate) shared_attributes: SharedAttributes,
    pub(crate) holds: Arc<Holds<u32>>,
    /// Held by whoever moves a directory to another directory.
    pub(crate) renames: Mutex<()>,
    /// How old a transaction becomes before it is committed; `None`: until somebody asks.
    pub(crate) commit_interval: Option<Duration>,
    pub(crate) together: Together,
    /// What was committed.
    pub(crate) durable: Durable,
}

impl Core {
    /// To read with.
    pub(crate) const fn volume(&self) -> &Volume {
        self.reader.volume()
    }

    /// The blocks of metadata as they are now.
    pub(crate) fn pool(&self) -> &BlockPool {
        self.volume().writable_pool()
    }

    /// Opens a handle if the running transaction has room now.
    ///
    /// # Errors
    /// `ReadOnly` when writing has ended.
    fn try_begin(&self, credits: u32) -> Result<Option<Handle<'_>>> {
        let context = Context {
            volume: self.volume(),
            transactions: &self.transactions,
            touched: &self.touched,
            abort: self,
        };
        let transaction = TransactionHandle::try_begin(context, credits)?;
        Ok(transaction.map(|transaction| Handle {
            transaction,
            allocator: &self.allocator,
            delayed: &self.delayed,
            device: &self.device,
            holds: &self.holds,
            shared_attributes: &self.shared_attributes,
        }))
    }

    /// Does `operation` with these inodes locked, as part of the running transaction; `credits` is
    /// how many blocks of metadata it may change.
    ///
    /// An operation that fails with `NoSpace` because what is free waits for a commit is done again
    /// after that commit, from its beginning.
    ///
    /// # Errors
    /// `ReadOnly` when writing has ended; what `operation` gives.
    pub(crate) fn update<R>(
        &self,
        inodes: &[u32],
        credits: u32,
        mut operation: impl FnMut(&Handle<'_>) -> Result<R>,
    ) -> Result<R> {
        /// How often it is done again: others may use up what a commit has given.
        const TRIES_MAX: u32 = 4;
        let mut tries = 0u32;
        loop {
            let locked = self.locks.exclusive(inodes);
            if let Some(handle) = self.try_begin(credits)? {
                let result = operation(&handle);
                let waits_for = handle.waits_for(&result);
                let result = handle.finish(result);
                drop(handle);
                drop(locked);
                tries = tries.saturating_add(1);
                match waits_for {
                    Some(_) if self.together == Together::InOneTransaction => {
                        return result.map_err(|_| needs_what_is_replaced());
                    }
                    Some(transaction) if tries < TRIES_MAX => {
                        self.transactions.make_durable(transaction)?;
                        continue;
                    }
                    _ => return result,
                }
            }
            drop(locked);
            self.transactions.wait_for_room(credits)?;
        }
    }
}

impl Abort for Core {
    fn abort(&self, why: &Error) {
        if !self.transactions.finish(Ended::Aborted(why.to_string())) {
            return;
        }
        // The device's failures leave the filesystem as it was: nothing is to be repaired.
        if self.together != Together::No && why.kind() != ErrorKind::Corrupt {
            tracing::debug!("writing to the filesystem ends: {why}");
            return;
        }
        tracing::error!("writing to the filesystem ends: {why}");
        self.mark_error(why);
    }
}

/// There is room only in what the change itself replaces.
fn needs_what_is_replaced() -> Error {
    let reason = "no room for the new contents beside the old ones";
    let hint = "remove something first, or cut the file with `diskfs truncate -s 0`";
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}

/// The present time.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
