//! The end of a transaction: its blocks are written to the journal, and later to their final
//! places.

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::log_writer::{LogShare, Transaction};
use crate::pool::{ChangedBlock, TransactionId};
use crate::transaction::{Abort, Changes, StopReason, Task, Turn};

use super::Core;
use super::log::Log;

/// The time without changes until the journal is checkpointed.
const REST: Duration = Duration::from_secs(10);

/// Starts the commit thread. It ends when writing stops.
///
/// # Errors
/// `Io` if the host cannot start a thread.
pub(crate) fn start_committing(core: &Arc<Core>) -> Result<JoinHandle<()>> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("ext4-commit".to_owned());
    thread
        .spawn(move || run(&core))
        .map_err(|e| Error::new(ErrorKind::Io, "cannot start the commit thread").with_source(e))
}

/// Runs the commit thread until writing stops.
fn run(core: &Core) {
    let _end = EndsWriting(core);
    loop {
        match core.transactions.next_task(core.commit_interval) {
            Task::Commit(turn) => core.commit(turn),
            Task::Checkpoint => {
                if let Err(e) = core.checkpoint() {
                    core.abort(&e);
                }
            }
            Task::End => return,
        }
    }
}

/// A guard that stops writing when a thread panics in the middle of a commit, so that nobody waits
/// for it in vain.
struct EndsWriting<'c>(&'c Core);

impl Drop for EndsWriting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "a thread panicked in a commit".to_owned();
            self.0.transactions.finish(StopReason::Aborted(reason));
        }
    }
}

impl Core {
    /// Makes a transaction and all before it durable. Commits if no other thread does.
    ///
    /// # Errors
    /// `ReadOnly` with the reason if writing stops before that.
    pub(crate) fn make_durable(&self, transaction: TransactionId) -> Result<()> {
        while let Some(turn) = self.transactions.wait_until_durable(transaction)? {
            self.commit(turn);
        }
        Ok(())
    }

    /// Commits the running transaction, which is durable then. An error stops writing.
    fn commit(&self, turn: Turn<'_>) {
        let _end = EndsWriting(self);
        if let Err(e) = self.try_commit() {
            self.abort(&e);
        }
        drop(turn);
    }

    /// Commits on a thread that has the turn, or that is alone.
    ///
    /// # Errors
    /// `ReadOnly` if an error has stopped writing; the errors of the journal.
    pub(super) fn try_commit(&self) -> Result<()> {
        let (id, changes, taken) = self.transactions.close_running(|changes| -> Result<_> {
            let is_first = !changes.is_empty() && self.mark_mounted(changes)?;
            Ok((is_first, self.contents(changes)))
        })?;
        let (is_first, blocks) = taken?;
        let blocks = blocks.ok_or_else(|| {
            let reason = "a changed block is missing from the block pool";
            Error::new(ErrorKind::Io, reason)
        })?;
        let mut log = self.log()?;
        if is_first {
            self.device.flush()?;
        }
        if !changes.is_empty() {
            log.prepare(self)?;
            self.durable.begin();
            log.commit(
                self,
                Transaction {
                    id,
                    blocks,
                    revoked: changes.revoked.into_iter().collect(),
                    time: self.volume().ambient.now(),
                },
            )?;
            self.durable.commit();
            self.allocator.release(&changes.freed);
        }
        self.transactions.became_durable(id);
        self.touched.became_durable(id);
        if log.is_heavy() {
            log.checkpoint(self)?;
        }
        let rest = self.commit_interval.filter(|_| log.is_used());
        let rest = rest.and_then(|_| Instant::now().checked_add(REST));
        self.transactions.checkpoint_at(rest);
        Ok(())
    }

    /// Limits transactions to the room in the log: a quarter of it, or all of it if commits happen
    /// only on request. The changes of such a caller belong together, and nobody waits for a
    /// checkpoint meanwhile.
    ///
    /// # Errors
    /// `Io` after a commit that panicked.
    pub(crate) fn limit_transactions(&self) -> Result<()> {
        let share = match self.commit_interval {
            Some(_) => LogShare::Quarter,
            None => LogShare::Whole,
        };
        let block_bytes = self.volume().superblock.block_size.bytes();
        let blocks_max = self.log()?.blocks_max(block_bytes, share);
        self.transactions.set_blocks_max(blocks_max);
        Ok(())
    }

    /// Checkpoints the journal.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.log()?.checkpoint(self)
    }

    pub(super) fn log(&self) -> Result<MutexGuard<'_, Log>> {
        // A thread that panicked with this lock was writing the journal: its contents are unknown.
        self.log
            .lock()
            .map_err(|_| Error::new(ErrorKind::Io, "the journal is in the middle of a commit"))
    }

    /// Returns the final contents of the transaction's blocks. Each block stays in the pool until
    /// it is checkpointed.
    fn contents(&self, changes: &Changes) -> Option<Vec<ChangedBlock>> {
        let pool = self.pool();
        let mut blocks: Vec<FsBlock> = changes.blocks.iter().copied().collect();
        blocks.sort_unstable();
        let contents = blocks.into_iter().map(|block| pool.changed_block(block));
        contents.collect()
    }
}
