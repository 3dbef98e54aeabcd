//! How transactions become durable: through the journal, or without one in an order that e2fsck can
//! make sense of.

use crate::error::{Error, ErrorKind, Result};
use crate::journal::log_writer::{LogShare, LogWriter, Transaction};
use crate::journal::write_home;
use crate::pool::ChangedBlock;

use super::Core;

/// The way.
#[derive(Debug)]
pub(crate) enum Log {
    Journal(Box<LogWriter>),
    /// The filesystem has no journal. After a crash it is for e2fsck to repair, and it says so
    /// itself: it is not marked clean meanwhile.
    None,
}

impl Log {
    /// Returns the way for a filesystem with this journal, or without one.
    pub(crate) fn new(journal: Option<LogWriter>) -> Self {
        match journal {
            Some(journal) => Self::Journal(Box::new(journal)),
            None => Self::None,
        }
    }

    /// How many blocks one transaction may change; `block_bytes` is the size of a block.
    pub(crate) fn blocks_max(&self, block_bytes: u32, share: LogShare) -> u32 {
        /// What a transaction's blocks may take in memory.
        const BYTES_MAX: u32 = 16 << 20;
        match self {
            Self::Journal(log) => log.blocks_max(share),
            Self::None => BYTES_MAX.checked_div(block_bytes).unwrap_or(0),
        }
    }

    /// Makes the contents of files durable, if a commit does not do so before anything shows them.
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

    /// Makes a commit that failed one that never was, as far as can be known.
    ///
    /// # Errors
    /// When it may be there: `Io`, `NoSpace`.
    pub(super) fn take_back(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.take_back(&core.device),
            Self::None => {
                let reason = "without a journal, what was written stays";
                Err(Error::new(ErrorKind::Io, reason))
            }
        }
    }

    /// Whether there is so much in the journal that it is time for a checkpoint.
    pub(super) fn is_heavy(&self) -> bool {
        match self {
            Self::Journal(log) => log.is_heavy(),
            Self::None => false,
        }
    }

    /// Whether a checkpoint would do anything.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Journal(log) => log.is_used(),
            Self::None => false,
        }
    }

    /// Brings home what the journal holds.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn checkpoint(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.checkpoint(&core.device, core.pool()),
            Self::None => Ok(()),
        }
    }

    /// Brings home what the journal holds, and leaves it empty.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn close(&mut self, core: &Core) -> Result<()> {
        match self {
            Self::Journal(log) => log.close(&core.device, core.pool()),
            Self::None => Ok(()),
        }
    }

    /// Says that an error ended writing.
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

/// First all but directories, then directories. So a new name never leads to an inode that is not
/// there, or a file to blocks that another one has; what a crash may leave is inodes and blocks in use
/// without a name, and names of inodes that were freed. e2fsck repairs both without asking anybody.
fn commit_unjournaled(core: &Core, transaction: &Transaction) -> Result<()> {
    for has_names in [false, true] {
        let blocks = transaction.blocks.iter();
        let now = |block: &&ChangedBlock| block.has_names == has_names;
        let now = blocks.filter(now).map(|block| (block.block, &block.bytes));
        write_home(&core.device, now)?;
        core.device.flush()?;
    }
    core.pool().came_home(transaction.id);
    Ok(())
}
