//! The journal (jbd2). A filesystem that was not unmounted is shown as the kernel would show it
//! after replaying the log, without changing a byte on the device. To open it for writing, the log
//! is checkpointed first, and then written ([`log_writer`]).
//!
//! # Structure and recovery
//!
//! The log is a ring of blocks in a file (usually inode 8). A transaction consists of descriptor
//! blocks ([`descriptor`], [`tag`]), each followed by the data blocks that it describes, revocation
//! blocks ([`revocation`]) and a commit block ([`commit`]). Recovery takes three steps, as in
//! Linux:
//!
//! 1. *scan* ([`scan`]): find the end of the log, and check each transaction's checksums;
//! 2. *revoke*: leave out the blocks that were freed later ([`replay::NewestBlocks::revoke`]);
//! 3. *replay*: use the newest version of each block ([`replay`]).
//!
//! Where Linux then writes the blocks to their final places, [`JournalView`] reads them from the
//! log on demand. It uses 24 bytes for each run of blocks; nothing is copied. A log with nothing to
//! replay has no cost, because then there is no view.
//!
//! After the log, fast commits ([`fast_commit`]) may contain further changes.
//!
//! # The end of the log
//!
//! The log ends at the first block that does not belong to the expected transaction. A transaction
//! without a commit block was never committed. A transaction whose checksums don't match is left
//! out if it is the last one (its writer was interrupted). If another one follows, the journal is
//! corrupt. Linux refuses to mount in the first case, too, unless the journal has `async_commit`;
//! e2fsck then uses the state before the transaction, and for reading this does no harm.
//!
//! # Limits
//!
//! Everything is bounded by the number of blocks that the journal's inode really has: each tag
//! needs a block of the log, and the log is read once. See `superblock::JOURNAL_BLOCKS_MAX`.
//!
//! # Not supported
//!
//! External journals (unsupported if they need recovery); the copy of the journal's inode in
//! `s_jnl_blocks`, which e2fsck uses if the inode is broken; MD5 and SHA-1 checksums, which have
//! type numbers but were never written by any implementation.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Journal (jbd2)".

mod block_header;
mod checkpoint_list;
mod checksum;
mod commit;
mod descriptor;
mod error;
mod fast_commit;
mod features;
mod log;
mod log_appender;
pub(crate) mod log_writer;
mod replay;
mod revocation;
mod scan;
mod superblock;
mod tag;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::Result;

use crate::block::BlockSize;
use crate::error::device_failed;
use crate::superblock::Superblock;

use block_header::Sequence;
use descriptor::TAIL_BYTES;
use error::{Damage, corrupt_block};
use log::{LogBlock, LogMap, LogReader};
use replay::NewestBlocks;
use scan::{Scan, Scanned};
use superblock::{JournalSuperblock, SUPERBLOCK_BYTES, StoredSuperblock};

pub(crate) use checkpoint_list::write_to_final_places;
pub(crate) use fast_commit::{EditedStep, EditedWalk, FastCommits, NameEdit, NameEdits};
pub(crate) use log::JournalRun;
pub(crate) use superblock::new_superblock;
pub(crate) use view::JournalView;

/// A filesystem's journal, with a checked superblock; the log has not been read yet.
#[derive(Debug)]
pub(crate) struct Journal {
    device: Arc<dyn BlockRead>,
    block_size: BlockSize,
    fs_blocks: u64,
    map: LogMap,
    superblock: JournalSuperblock,
    stored: StoredSuperblock,
}

/// The result of replaying a journal that was not empty.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The device as it is after the replay; `None` if no block changes.
    pub(crate) view: Option<JournalView>,
    /// The number of replayed transactions.
    pub(crate) transactions: u32,
    /// The reason why the last transaction was left out, if it was.
    left_out: Option<Damage>,
    /// The sequence number of the transaction after the replayed ones.
    next: Sequence,
    /// The log block where that transaction would begin.
    end: LogBlock,
}

impl Replayed {
    /// Returns the notes for [`diskfs_vfs::Identity::notes`]. `place` says where the log was
    /// replayed to.
    pub(crate) fn notes(&self, place: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.transactions > 0 {
            let count = self.transactions;
            notes.push(format!("journal replayed {place} ({count} transactions)"));
        }
        if let Some(damage) = self.left_out {
            let number = self.next;
            notes.push(format!(
                "the journal's last transaction, {number}, was not replayed: {damage}"
            ));
        }
        notes
    }
}

impl Journal {
    /// Reads the journal's superblock. `runs` are those of the journal's inode, from its first
    /// block on and without holes; `fs_blocks` is the number of blocks of the filesystem.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` with the names of unknown features, `Io`.
    pub(crate) fn open(
        device: Arc<dyn BlockRead>,
        block_size: BlockSize,
        fs_blocks: u64,
        runs: impl IntoIterator<Item = Result<JournalRun>>,
    ) -> Result<Self> {
        let mut runs = runs.into_iter();
        let mut map = LogMap::new(fs_blocks);
        map.extend(&mut runs, 1)?;
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let at = block_size.byte_of(map.device_block(LogBlock(0))?);
        device.read_at(at, &mut bytes).map_err(device_failed)?;
        let superblock = JournalSuperblock::parse(&bytes, block_size).map_err(|e| e.at(at))?;
        map.extend(&mut runs, superblock.len_blocks)?;
        Ok(Self {
            device,
            block_size,
            fs_blocks,
            map,
            superblock,
            stored: StoredSuperblock::new(&bytes),
        })
    }

    /// Returns true if the log contains transactions.
    pub(crate) const fn has_transactions(&self) -> bool {
        self.superblock.start.is_some()
    }

    /// Replays the log. Returns `None` if it is empty.
    ///
    /// # Errors
    /// `Corrupt` if the log contradicts itself, `Io`.
    pub(crate) fn replay(&self) -> Result<Option<Replayed>> {
        let Some(start) = self.superblock.start else {
            return Ok(None);
        };
        let mut reader = LogReader::new(&self.device, &self.map, self.block_size);
        let mut found = Scan::new(&self.superblock, &mut reader, start, self.fs_blocks).run()?;
        let blocks = std::mem::take(&mut found.blocks);
        let mut newest = NewestBlocks::new(blocks);
        self.revoke(&mut newest, &found, &mut reader)?;
        let runs = newest.into_runs(&self.map)?;
        let device = Arc::clone(&self.device);
        let view = (!runs.is_empty()).then(|| JournalView::new(device, self.block_size, runs));
        let Scanned {
            transactions,
            left_out,
            next,
            end,
            ..
        } = found;
        Ok(Some(Replayed {
            view,
            transactions,
            left_out,
            next,
            end,
        }))
    }

    /// Reads the fast commits after the log. Returns `None` if there are none. `superblock` is the
    /// filesystem's superblock after the replay of the log.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` for unknown features, `Io`.
    pub(crate) fn fast_commits(
        &self,
        replayed: &Replayed,
        superblock: &Superblock,
    ) -> Result<Option<FastCommits>> {
        let Some(blocks) = self.superblock.fast_commits.clone() else {
            return Ok(None);
        };
        FastCommits::load(fast_commit::Source {
            device: &self.device,
            map: &self.map,
            reader: &mut LogReader::new(&self.device, &self.map, self.block_size),
            blocks,
            tid: replayed.next,
            superblock,
        })
    }

    fn revoke(
        &self,
        newest: &mut NewestBlocks,
        found: &Scanned,
        reader: &mut LogReader<'_>,
    ) -> Result<()> {
        let per_block = self.superblock.checksums.per_block();
        let tail_bytes = if per_block { TAIL_BYTES } else { 0 };
        for &(block, transaction) in &found.revocations {
            let bytes = reader.block(block)?;
            let records = revocation::records(bytes, self.superblock.record_width, tail_bytes)
                .map_err(|_| corrupt_block(block, "it changed while it was read"))?;
            for target in records {
                newest.revoke(target, transaction);
            }
        }
        Ok(())
    }
}
