//! The journal (jbd2): a filesystem that was not unmounted is shown as the kernel would show it after
//! replaying the log, without a byte of it changed; or the log is brought home, and written from then
//! on ([`log_writer`]).
//!
//! # What is done
//!
//! The log is a ring of blocks in a file (inode 8 as a rule): transactions, each of them descriptor
//! blocks ([`descriptor`], [`tag`]) with the data that belongs elsewhere, revocation blocks
//! ([`revocation`]) and a commit block ([`commit`]). Recovery takes three steps, as in Linux:
//!
//! 1. *scan* ([`scan`]): find the end of the log, and check each transaction's checksums;
//! 2. *revoke*: leave out the blocks that were freed later ([`replay::NewestBlocks::revoke`]);
//! 3. *replay*: of each block, the newest version counts ([`replay`]).
//!
//! Where Linux then writes the blocks to their places, [`JournalView`] reads them out of the log
//! whenever they are asked for. It holds 24 bytes for each run of blocks; nothing is copied. A
//! log of which nothing is left to replay costs nothing, because then there is no view.
//!
//! Behind the log, fast commits ([`fast_commit`]) may tell of further changes.
//!
//! # What ends the log
//!
//! The first block that is not of the expected transaction. A transaction without a commit block
//! never was one. One whose checksums don't match is left out if it is the last one (its writer was
//! interrupted); if another one follows, the journal is corrupt. Linux refuses to mount in the first
//! case, too, unless the journal has `async_commit`; reading the state before the transaction is
//! what e2fsck does then, and it harms nobody here.
//!
//! # Limits
//!
//! Everything is bounded by the blocks that the journal's inode really has: each tag takes a block
//! of the log, and the log is gone round once. See `superblock::JOURNAL_BLOCKS_MAX`.
//!
//! # Not done
//!
//! External journals (unsupported while they need recovery); the copy of the journal's inode in
//! `s_jnl_blocks`, which e2fsck uses when the inode is broken; MD5 and SHA-1 sums, which have
//! numbers but were never written by anything.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Journal (jbd2)".

mod block_header;
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
mod unsettled;
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

pub(crate) use fast_commit::{EditedStep, EditedWalk, FastCommits, NameEdit, NameEdits};
pub(crate) use log::JournalRun;
pub(crate) use unsettled::write_home;
pub(crate) use view::JournalView;

/// A filesystem's journal, checked but not gone through.
#[derive(Debug)]
pub(crate) struct Journal {
    device: Arc<dyn BlockRead>,
    block_size: BlockSize,
    fs_blocks: u64,
    map: LogMap,
    superblock: JournalSuperblock,
    stored: StoredSuperblock,
}

/// What a journal that was not empty changes.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The device as it is after the replay; `None` when no block changes.
    pub(crate) view: Option<JournalView>,
    /// How many transactions were replayed.
    pub(crate) transactions: u32,
    /// Why the last one is left out, if it is.
    left_out: Option<Damage>,
    /// The number that the transaction after them has, or would have.
    next: Sequence,
    /// Where that one would begin.
    end: LogBlock,
}

impl Replayed {
    /// What a careful reader should know, as [`diskfs_vfs::Identity::notes`] says it.
    /// `place` is where to it was replayed.
    pub(crate) fn notes(&self, place: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.transactions > 0 {
            let count = self.transactions;
            notes.push(format!("journal replayed {place} ({count} transactions)"));
        }
        if let Some(damage) = self.left_out {
            let number = self.next;
            notes.push(format!(
                "the journal's last transaction, {number}, is left out: {damage}"
            ));
        }
        notes
    }
}

impl Journal {
    /// Reads the journal's superblock. `runs` are those of the journal's inode, from its first
    /// block on and without holes; `fs_blocks` is how many blocks the filesystem has.
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

    /// Goes through the log. `None` when it is empty.
    ///
    /// # Errors
    /// `Corrupt` when the log contradicts itself, `Io`.
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

    /// Reads the fast commits behind the log. `None` when there are none. `superblock` is the
    /// filesystem's after the replay of the log.
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
