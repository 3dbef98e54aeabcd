//! The end of a transaction: its blocks go to the journal, and later to their places.

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::log_writer::{LogShare, Transaction};
use crate::pool::ChangedBlock;
use crate::transaction::{Abort, Changes, Ended, Task};

use super::Core;
use super::log::Log;

/// How long nothing happens until what is in the journal is brought home.
const REST: Duration = Duration::from_secs(10);

/// Starts the thread that commits. It ends when writing does.
///
/// # Errors
/// `Io` when the host has no thread to give.
pub(crate) fn start_committing(core: &Arc<Core>) -> Result<JoinHandle<()>> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("ext4-commit".to_owned());
    thread.spawn(move || run(&core)).map_err(|e| {
        Error::new(ErrorKind::Io, "no thread can be started for commits").with_source(e)
    })
}

/// What the thread that commits does until writing ends.
fn run(core: &Core) {
    let _end = EndsWriting(core);
    let mut rest = None;
    loop {
        let done = match core.transactions.next_task(core.commit_interval, rest) {
            Task::Commit => core.commit(),
            Task::Checkpoint => core.checkpoint(),
            Task::End => return,
        };
        rest = match done {
            Ok(Journal::Used) if core.commit_interval.is_some() => Instant::now().checked_add(REST),
            Ok(_) => None,
            Err(e) => {
                core.abort(&e);
                None
            }
        };
    }
}

/// Ends writing when the thread that commits is gone, whatever was its end: nobody must wait for it
/// in vain.
struct EndsWriting<'c>(&'c Core);

impl Drop for EndsWriting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "the thread that commits panicked".to_owned();
            self.0.transactions.finish(Ended::Aborted(reason));
        }
    }
}

/// What is in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// Something that is not home.
    Used,
    /// Nothing.
    Empty,
}

impl Core {
    /// Commits the running transaction: when this returns it is durable.
    pub(super) fn commit(&self) -> Result<Journal> {
        let (id, changes, blocks) = self
            .transactions
            .close_running(|changes| self.contents(changes))?;
        let blocks = blocks.ok_or_else(|| {
            let reason = "a block that was changed is no longer in memory";
            Error::new(ErrorKind::Io, reason)
        })?;
        let mut log = self.log()?;
        if !changes.is_empty() {
            log.prepare(self)?;
            self.durable.begin();
            log.commit(
                self,
                Transaction {
                    id,
                    blocks,
                    revoked: changes.revoked.into_iter().collect(),
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
        Ok(state_of(&log))
    }

    /// Limits transactions to what the log has room for: a quarter of it, or all of it where nothing is committed unless
    /// somebody asks. The changes of such a caller belong together, and nobody waits for a checkpoint meanwhile.
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

    /// Brings home what is in the journal.
    pub(crate) fn checkpoint(&self) -> Result<Journal> {
        let mut log = self.log()?;
        log.checkpoint(self)?;
        Ok(state_of(&log))
    }

    pub(super) fn log(&self) -> Result<MutexGuard<'_, Log>> {
        // Whoever panicked with it was writing the journal: nothing is known of what is there.
        self.log.lock().map_err(|_| {
            Error::new(
                ErrorKind::Io,
                "the journal was left in the middle of a commit",
            )
        })
    }

    /// What the transaction made of its blocks. Each is in the pool as long as it is not home.
    fn contents(&self, changes: &Changes) -> Option<Vec<ChangedBlock>> {
        let pool = self.pool();
        let mut blocks: Vec<FsBlock> = changes.blocks.iter().copied().collect();
        blocks.sort_unstable();
        let contents = blocks.into_iter().map(|block| pool.changed_block(block));
        contents.collect()
    }
}

fn state_of(log: &Log) -> Journal {
    if log.is_used() {
        Journal::Used
    } else {
        Journal::Empty
    }
}
