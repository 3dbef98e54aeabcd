//! Writing to the filesystem.
//!
//! [`Core`] is the part that all writing modules share: the volume for reading, the device, the
//! transactions, the journal, the allocator, the locks. An operation (`namespace`, `contents`,
//! `attributes`) locks the inodes concerned, opens a [`Handle`], and changes blocks of metadata and
//! inodes through it.
//!
//! # Lock order
//!
//! 1. `renames` (renames of directories to another directory, one at a time);
//! 2. locks of inodes ([`crate::locks`]), all that an operation needs at once;
//! 3. a handle: with locked inodes it is opened without waiting; waiting is allowed only without
//!    them;
//! 4. the orphan list;
//! 5. the lock of shared attributes;
//! 6. an allocator's block group, one at a time;
//! 7. a shard of the pool; then the state of the transactions, which is never held while another
//!    lock is taken.
//!
//! A commit ([`commit`]) takes none of 1 to 5: it waits for open handles, and those never wait for
//! a lock of 1 or 2 (the operation has them before it opens its handle). No operation continues in
//! another transaction while it holds a lock of 4 or 5.

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

use diskfs_vfs::Holds;

use crate::allocator::Allocator;
use crate::delayed::DelayedFiles;
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::ext4::Ext4;
use crate::handle::Handle;
use crate::locks::InodeLocks;
use crate::options::TransactionGrouping;
use crate::pool::BlockPool;
use crate::shared_attributes::SharedAttributes;
use crate::transaction::{Abort, Context, StopReason, Touched, TransactionHandle, Transactions};
use crate::volume::Volume;

pub(crate) use commit::start_committing;
pub(crate) use contents::start_writing_back;
pub(crate) use durable::Durable;
pub(crate) use log::Log;
pub(crate) use mount::MountMark;
pub(crate) use orphans::Orphans;
pub(crate) use orphans::empty_block as empty_orphan_block;
pub use uuid::{UuidChange, uuid_change};

/// The state that all parts of writing share. See the [module](self).
#[derive(Debug)]
pub(crate) struct Core {
    /// The reader of the current state.
    pub(crate) reader: Ext4,
    /// The device, for writing file contents and checkpointed metadata blocks.
    pub(crate) device: DeviceWriter,
    pub(crate) transactions: Transactions,
    /// The journal, used only by threads that commit.
    pub(crate) log: Mutex<Log>,
    pub(crate) allocator: Allocator,
    pub(crate) locks: InodeLocks,
    pub(crate) touched: Touched,
    pub(crate) orphans: Orphans,
    pub(crate) delayed: DelayedFiles,
    pub(crate) shared_attributes: SharedAttributes,
    pub(crate) holds: Arc<Holds<u32>>,
    /// The lock for moving a directory to another directory.
    pub(crate) renames: Mutex<()>,
    /// The age at which a transaction is committed; `None` means only on request.
    pub(crate) commit_interval: Option<Duration>,
    pub(crate) grouping: TransactionGrouping,
    /// The record of what was committed.
    pub(crate) durable: Durable,
    pub(crate) mount_mark: MountMark,
}

impl Core {
    /// Returns the volume for reading.
    pub(crate) const fn volume(&self) -> &Volume {
        self.reader.volume()
    }

    /// Returns the pool of current metadata blocks.
    pub(crate) fn pool(&self) -> &BlockPool {
        self.volume().writable_pool()
    }

    /// Opens a handle if the running transaction has room now.
    ///
    /// # Errors
    /// `ReadOnly` if writing has stopped.
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

    /// Runs `operation` with these inodes locked, as part of the running transaction; `credits` is
    /// the maximum number of metadata blocks that it may change.
    ///
    /// An operation that fails with `NoSpace` because freed blocks become usable only with a commit
    /// is repeated from its beginning after that commit. One that fails while delayed data reserves
    /// more than it needs is repeated after that data is written.
    ///
    /// # Errors
    /// `ReadOnly` if writing has stopped; the errors of `operation`.
    pub(crate) fn update<R>(
        &self,
        inodes: &[u32],
        credits: u32,
        mut operation: impl FnMut(&Handle<'_>) -> Result<R>,
    ) -> Result<R> {
        match self.update_beside_delayed(inodes, credits, &mut operation) {
            Err(e) if e.kind() == ErrorKind::NoSpace && self.delayed.bytes() > 0 => {
                // A file that can't be written reports that itself.
                let _ = self.write_all_back();
                self.update_beside_delayed(inodes, credits, &mut operation)
            }
            result => result,
        }
    }

    /// Does the same as [`update`](Self::update), but leaves delayed data and its reservations in
    /// memory.
    pub(crate) fn update_beside_delayed<R>(
        &self,
        inodes: &[u32],
        credits: u32,
        operation: &mut dyn FnMut(&Handle<'_>) -> Result<R>,
    ) -> Result<R> {
        /// The maximum number of repetitions: others may use up the blocks that a commit has
        /// released.
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
                    Some(_) if self.grouping == TransactionGrouping::InOneTransaction => {
                        return result.map_err(|_| needs_what_is_replaced());
                    }
                    Some(transaction) if tries < TRIES_MAX => {
                        self.make_durable(transaction)?;
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
        if !self
            .transactions
            .finish(StopReason::Aborted(why.to_string()))
        {
            return;
        }
        // A failure of the device leaves the filesystem as it was: nothing needs a repair.
        if self.grouping != TransactionGrouping::No && why.kind() != ErrorKind::Corrupt {
            tracing::debug!("writing to the filesystem has stopped: {why}");
            return;
        }
        tracing::error!("writing to the filesystem has stopped: {why}");
        self.mark_error(why);
    }
}

/// Returns the error for a change that could only fit into the space that it itself replaces.
fn needs_what_is_replaced() -> Error {
    let reason = "no space left for the new contents beside the old ones";
    let hint = "delete something first, or truncate the file with `diskfs truncate -s 0`";
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}
