//! The way in which transactions become durable: through the journal, or without one in an order
//! that e2fsck can repair.

use crate::error::{Error, ErrorKind, Result};
use crate::journal::log_writer::{LogShare, LogWriter, Transaction};
use crate::journal::write_to_final_places;
use crate::pool::ChangedBlock;

use super::Core;

/// The log of a filesystem.
#[derive(Debug)]
pub(crate) enum Log {
    Journal(Box<LogWriter>),
    /// No journal. After a crash e2fsck must repair the filesystem; for this purpose the filesystem
    /// is not marked clean while it is open.
    None,
}

impl Log {
    /// Returns the log of a filesystem with this journal, or without one.
    pub(crate) fn new(journal: Option<LogWriter>) -> Self {
        match journal {
            Some(journal) => Self::Journal(Box::new(journal)),
            None => Self::None,
        }
    }

    /// Returns the maximum number of blocks that one transaction may change; `block_bytes` is the
    /// block size.
    pub(crate) fn blocks_max(&self, block_bytes: u32, share: LogShare) -> u32 {
        /// The maximum memory for a transaction's blocks.
        const BYTES_MAX: u32 = 16 << 20;
        match self {
            Self::Journal(log) => log.blocks_max(share),
            Self::None => BYTES_MAX.checked_div(block_bytes).unwrap_or(0),
        }
    }

    /// Makes the contents of files durable before a commit refers to them, if the commit itself
    /// does not.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn prepare(&self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(_) => Ok(()),
            Self::None => core.device.flush_written(),
        }
    }

    /// Makes a transaction durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn commit(&mut self, core: &Core, transaction: Transaction) -> Result<()> {
        match self {
            Self::Journal(log) => log.commit(&core.device, core.pool(), transaction),
            Self::None => commit_unjournaled(core, &transaction),
        }
    }

    /// Undoes a failed commit, as far as possible.
    ///
    /// # Errors
    /// `Io` or `NoSpace` if the commit may be durable.
    pub(super) fn undo_failed_commit(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.undo_failed_commit(&core.device),
            Self::None => {
                let reason = "cannot undo the failed commit: the filesystem has no journal";
                Err(Error::new(ErrorKind::Io, reason))
            }
        }
    }

    /// Returns true if so many blocks wait for a checkpoint that one should be done.
    pub(super) fn is_heavy(&self) -> bool {
        match self {
            Self::Journal(log) => log.is_heavy(),
            Self::None => false,
        }
    }

    /// Returns true if a checkpoint would write anything.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Journal(log) => log.is_used(),
            Self::None => false,
        }
    }

    /// Checkpoints the journal.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn checkpoint(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.checkpoint(&core.device, core.pool()),
            Self::None => Ok(()),
        }
    }

    /// Checkpoints the journal, and leaves it empty.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn close(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.close(&core.device, core.pool()),
            Self::None => Ok(()),
        }
    }

    /// Records that an error stopped writing.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn mark_error(&mut self, core: &Core, errno: i32) -> Result<()> {
        match self {
            Self::Journal(log) => log.mark_error(&core.device, errno),
            Self::None => Ok(()),
        }
    }
}

/// Writes a transaction without a journal: first all blocks but those of directories, then those of
/// directories. So a new name never refers to an unused inode, and a file never to blocks of
/// another file. A crash may leave inodes and blocks in use without a name, and names of freed
/// inodes. e2fsck repairs both without questions.
fn commit_unjournaled(core: &Core, transaction: &Transaction) -> Result<()> {
    for has_names in [false, true] {
        let blocks = transaction.blocks.iter();
        let now = |block: &&ChangedBlock| block.has_names == has_names;
        let now = blocks.filter(now).map(|block| (block.block, &block.bytes));
        write_to_final_places(&core.device, now)?;
        core.device.flush()?;
    }
    core.pool().note_checkpointed(transaction.id);
    Ok(())
}
