//! The commit of a stage: all changed blocks of the old filesystem at once, through the journal, or
//! through a record of our own ([`redo`](super::redo)).

use std::sync::Arc;

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::block::FsBlock;
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Incompatible;
use crate::journal::log_writer::{LogShare, LogWriter, Transaction};
use crate::pool::{BlockPool, ChangedBlock, TransactionId};
use crate::recovery::recover_for_writing;
use crate::superblock::{self, Superblock};

use super::edits::{Blocks, write_with_last};
use super::redo::{self, OTHER_BLOCKS_MAX, Record};

/// The way in which the blocks are committed.
#[derive(Debug)]
pub(crate) enum Commit {
    Journal(Box<LogWriter>),
    /// A record in the new space, for a filesystem without a journal.
    Record,
}

impl Commit {
    /// Prepares the journal of a filesystem that was recovered.
    ///
    /// # Errors
    /// Fails like [`recover_for_writing`].
    pub(crate) fn open(device: &Arc<dyn BlockWrite>, superblock: &Superblock) -> Result<Self> {
        let recovered = recover_for_writing(device, superblock.clone())?;
        Ok(match recovered.journal {
            Some(log) => Self::Journal(Box::new(log)),
            None => Self::Record,
        })
    }

    /// Returns the maximum number of changed blocks of the descriptor table in a stage.
    ///
    /// # Errors
    /// `NoSpace` if the journal is too small.
    pub(crate) fn table_blocks_max(&self, superblock: &Superblock) -> Result<u32> {
        let all = match self {
            Self::Journal(log) => log.blocks_max(LogShare::Whole),
            Self::Record => redo::blocks_max(superblock),
        };
        let others = u32::from(superblock.reserved_gdt_blocks).saturating_add(OTHER_BLOCKS_MAX);
        match all.checked_sub(others) {
            Some(max) if max > 1 => Ok(max),
            _ => Err(too_small(others)),
        }
    }

    /// Commits `changed`, and writes the blocks to their places. `record` is the place for a record
    /// of them.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn run(
        self,
        device: &DeviceWriter,
        new: &Superblock,
        changed: &Blocks,
        record: Option<Record>,
    ) -> Result<()> {
        match (self, record) {
            (Self::Journal(log), _) => {
                let superblock = superblock::superblock_block(new.block_size);
                run_journaled(*log, device, new, (changed, superblock))
            }
            (Self::Record, Some(record)) => record.commit(device, new, changed),
            (Self::Record, None) => Err(redo::no_room()),
        }
    }
}

/// Commits `changed` through the journal, and writes the blocks to their places, `last` after all
/// others.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn run_journaled(
    mut log: LogWriter,
    device: &DeviceWriter,
    new: &Superblock,
    (changed, last): (&Blocks, FsBlock),
) -> Result<()> {
    let needs_recovery = Incompatible::NEEDS_RECOVERY.bits();
    let pool = BlockPool::new(0, new.block_size.bytes());
    superblock::change_on(device.device(), new, |raw| {
        let features = raw.s_feature_incompat.get() | needs_recovery;
        raw.s_feature_incompat.set(features);
    })?;
    device.flush()?;
    let block = |(block, bytes): (&FsBlock, &Arc<[u8]>)| ChangedBlock {
        block: *block,
        bytes: Arc::clone(bytes),
        has_names: false,
    };
    let transaction = Transaction {
        id: TransactionId(1),
        blocks: changed.iter().map(block).collect(),
        revoked: Vec::new(),
        time: Timestamp::now(),
    };
    if let Err(e) = log.commit(device, &pool, transaction) {
        // If this fails, too, the next user of the filesystem replays the transaction.
        let _ = log.undo_failed_commit(device);
        return Err(e);
    }
    // A kernel reads the descriptors before it replays the journal: the superblock on the device
    // must never be newer than they are.
    write_with_last(device, changed, last)?;
    log.close(device, &pool)?;
    superblock::change_on(device.device(), new, |raw| {
        let features = raw.s_feature_incompat.get() & !needs_recovery;
        raw.s_feature_incompat.set(features);
    })?;
    device.flush()
}

fn too_small(others: u32) -> Error {
    let reason = format!(
        "the journal is too small for growing: more than {others} blocks change at the same time"
    );
    let hint = "on a copy, make it larger with `tune2fs -O ^has_journal`, then `tune2fs -j`";
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}
