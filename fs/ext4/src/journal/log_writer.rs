//! Writing of the journal.
//!
//! # A commit
//!
//! 1. The revocation blocks, descriptor blocks and data blocks are written, and a block of zeroes
//!    in place of the commit block. Then the device is flushed.
//! 2. The commit block is written. Then the device is flushed again.
//!
//! Files' contents were written before (`data=ordered`), so the first flush is theirs, too. Both
//! flushes are necessary. Without the first one, the commit block may become durable before the
//! blocks that it commits, of which only the metadata has checksums. Without the second one, nobody
//! could be told that the transaction is durable.
//!
//! All fields of the commit block are in its first sector. Thanks to the zeroes written before, the
//! block is complete as soon as that sector is written, even if a disk tears the write of the
//! others.
//!
//! If the journal's superblock must change, it is written with the first group: until there is a
//! commit block, a log that begins with this transaction is empty, whatever its blocks contain.
//!
//! # A checkpoint
//!
//! [`CheckpointList`] lists the blocks in the log that are not at their final places yet. When the
//! log or that list is full, or nothing happens for a while, all of them are written to their final
//! places and flushed. Only then is the superblock changed, so that the log begins after them; it
//! is flushed before the old log is overwritten. So the log on the device is always either complete
//! or no longer needed.
//!
//! # Revocations
//!
//! A freed block of metadata needs a revocation only if the log contains a version of it. After a
//! checkpoint it contains none. So there are never more revocations than entries on the list.

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::block::{BlockSize, FsBlock};
use crate::bytes::{index, len_u64};
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result, write_failed};
use crate::features::Features;
use crate::pool::{BlockPool, ChangedBlock, TransactionId};

use super::block_header::{MAGIC, Sequence};
use super::checkpoint_list::CheckpointList;
use super::commit;
use super::descriptor::{self, TAIL_BYTES};
use super::error::corrupt_superblock;
use super::features::Checksums;
use super::log::{LogBlock, LogMap};
use super::log_appender::{LogAppender, LogArea};
use super::revocation;
use super::superblock::{JournalSuperblock, LogState, StoredSuperblock};
use super::tag::{Tag, TagChecksum};
use super::{Journal, Replayed};

/// A transaction to be committed.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    /// The blocks that it changed, sorted, with their final contents.
    pub(crate) blocks: Vec<ChangedBlock>,
    /// The blocks of metadata that it freed.
    pub(crate) revoked: Vec<FsBlock>,
    /// The time of the commit.
    pub(crate) time: Timestamp,
}

/// The part of the log that one transaction may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogShare {
    /// A quarter as in Linux, so that a commit seldom waits for a checkpoint.
    Quarter,
    /// The whole log, for changes that belong together: a replay is limited only by the log's end.
    Whole,
}

/// The maximum number of bytes in the blocks of one transaction.
const QUARTER_BYTES_MAX: u32 = 16 << 20;
const WHOLE_BYTES_MAX: u32 = 64 << 20;

/// A writer of transactions to the journal. See the [module](self).
#[derive(Debug)]
pub(crate) struct LogWriter {
    block_size: BlockSize,
    map: LogMap,
    /// The features and the places of the log's blocks; not the contents of the log when it was
    /// opened.
    format: JournalSuperblock,
    stored: StoredSuperblock,
    /// True if the superblock must be written before the next commit.
    superblock_is_dirty: bool,
    /// True if the fast commits are valid until the next transaction is committed.
    fast_commits_valid: bool,
    /// The start of the oldest transaction that is not checkpointed, and its sequence number.
    tail: (LogBlock, Sequence),
    /// The start of the next transaction, and its sequence number.
    head: (LogBlock, Sequence),
    /// The number of log blocks between the two.
    used_blocks: u32,
    /// The blocks in the log that are not checkpointed.
    checkpoint_list: CheckpointList,
    /// The failed commit, if the last write was one.
    failed: Option<FailedCommit>,
}

/// The state of a commit that failed.
#[derive(Debug, Clone, Copy)]
enum FailedCommit {
    /// The commit block may have been written at this place.
    AtCommitBlock(LogBlock),
    /// The commit block was written, and the superblock that makes it valid may have been written.
    AtSuperblock,
}

impl LogWriter {
    /// Returns the writer of a journal whose log, if any, was replayed (`replayed`). The caller
    /// must call [`reset`](Self::reset) before anything is committed. Nothing is written.
    ///
    /// # Errors
    /// `Unsupported` and `Corrupt` for journals that cannot be written.
    pub(crate) fn new(
        journal: Journal,
        filesystem: Features,
        replayed: Option<&Replayed>,
    ) -> Result<Self> {
        /// The minimum, `JBD2_MIN_JOURNAL_BLOCKS`.
        const LOG_BLOCKS_MIN: u32 = 1024;
        let sequence = next_sequence(&journal, replayed);
        let mut stored = journal.stored;
        stored.check_writable()?;
        stored.set_features(filesystem);
        let format = JournalSuperblock::parse(stored.sealed(), journal.block_size)?;
        // Block 0, the superblock, counts here.
        if format.log_blocks().saturating_add(1) < LOG_BLOCKS_MIN {
            return Err(corrupt_superblock(format_args!(
                "its log has {} blocks, fewer than the 1024 that Linux needs",
                format.log_blocks()
            )));
        }
        let begin = (format.first, sequence);
        Ok(Self {
            block_size: journal.block_size,
            map: journal.map,
            format,
            stored,
            superblock_is_dirty: true,
            fast_commits_valid: false,
            tail: begin,
            head: begin,
            used_blocks: 0,
            checkpoint_list: CheckpointList::default(),
            failed: None,
        })
    }

    /// Marks the log as empty on the device, after it was checkpointed or is known to be out of
    /// date.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn reset(&mut self, device: &dyn BlockWrite) -> Result<()> {
        let (_, sequence) = self.head;
        self.write_superblock(device, None, sequence)?;
        self.superblock_is_dirty = true;
        device.flush().map_err(write_failed)
    }

    /// Empties a log that is followed by fast commits, which stay valid until the next transaction
    /// is committed. They belong to the transaction after those that were replayed. The transaction
    /// that replaces them gets the sequence number after that one, so that none of its blocks look
    /// like theirs. One write of the superblock switches from them to the new transaction when that
    /// is complete.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn reset_to_fast_commits(
        &mut self,
        device: &dyn BlockWrite,
        replayed: &Replayed,
    ) -> Result<()> {
        let begin = (replayed.end, replayed.next.next());
        self.head = begin;
        self.tail = begin;
        self.write_superblock(device, Some(replayed.end), replayed.next)?;
        self.fast_commits_valid = true;
        device.flush().map_err(write_failed)
    }

    /// Returns the maximum number of blocks that one transaction may change.
    pub(crate) fn blocks_max(&self, share: LogShare) -> u32 {
        let log_blocks = self.format.log_blocks();
        let (blocks, bytes_max) = match share {
            LogShare::Quarter => (log_blocks.wrapping_div(4), QUARTER_BYTES_MAX),
            // One block stays free, so that the log's end never equals its beginning.
            LogShare::Whole => (log_blocks.saturating_sub(1), WHOLE_BYTES_MAX),
        };
        let blocks = blocks.min(bytes_max.wrapping_shr(self.block_size.bits()));
        let overhead = self.blocks_for(index(blocks), 0).saturating_sub(blocks);
        blocks.saturating_sub(overhead)
    }

    /// Returns the number of log blocks that a transaction needs.
    fn blocks_for(&self, changed: usize, revoked: usize) -> u32 {
        let descriptors = changed.div_ceil(self.tags_per_block());
        let revocations = revoked.div_ceil(self.records_per_block());
        let commit = 1;
        let all = changed
            .saturating_add(descriptors)
            .saturating_add(revocations)
            .saturating_add(commit);
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    fn tail_bytes(&self) -> usize {
        if self.format.checksums.per_block() {
            TAIL_BYTES
        } else {
            0
        }
    }

    fn tags_per_block(&self) -> usize {
        let form = self.format.tag_form;
        descriptor::tags_per_block(self.block_size.len(), form, self.tail_bytes()).max(1)
    }

    fn records_per_block(&self) -> usize {
        let width = self.format.record_width;
        revocation::records_per_block(self.block_size.len(), width, self.tail_bytes()).max(1)
    }

    /// Makes a transaction durable.
    ///
    /// # Errors
    /// `NoSpace` if the whole log is too small for it, or the host is full; `Io`.
    pub(crate) fn commit(
        &mut self,
        device: &DeviceWriter,
        pool: &BlockPool,
        mut transaction: Transaction,
    ) -> Result<()> {
        self.make_room(device, pool, &transaction)?;
        transaction
            .revoked
            .retain(|&block| self.checkpoint_list.contains(block));
        let (tail, sequence) = self.tail;
        if !transaction.revoked.is_empty() && self.stored.set_revoke() {
            self.superblock_is_dirty = true;
        }
        if self.superblock_is_dirty && !self.fast_commits_valid {
            self.write_superblock(device.device(), Some(tail), sequence)?;
        }
        self.append(device, &transaction)?;
        if self.fast_commits_valid {
            self.failed = Some(FailedCommit::AtSuperblock);
            self.write_superblock(device.device(), Some(tail), sequence)?;
            device.flush()?;
            self.fast_commits_valid = false;
        }
        self.failed = None;
        self.add_to_checkpoint_list(transaction);
        Ok(())
    }

    /// Undoes a failed commit: zeroes replace its possible commit block, so that the log ends
    /// before it.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; then the transaction may be durable nevertheless.
    pub(crate) fn undo_failed_commit(&mut self, device: &DeviceWriter) -> Result<()> {
        match self.failed {
            None => return Ok(()),
            Some(FailedCommit::AtSuperblock) => {
                let reason = "cannot undo the failed commit: the superblock may refer to it";
                return Err(Error::new(ErrorKind::Io, reason));
            }
            Some(FailedCommit::AtCommitBlock(at)) => {
                let at = self.block_size.byte_of(self.map.device_block(at)?);
                device.zero(at, self.block_size.bytes().into())?;
                device.flush()?;
            }
        }
        self.failed = None;
        Ok(())
    }

    fn make_room(
        &mut self,
        device: &DeviceWriter,
        pool: &BlockPool,
        transaction: &Transaction,
    ) -> Result<()> {
        let (changed, revoked) = (transaction.blocks.len(), transaction.revoked.len());
        let revoked = revoked.min(self.checkpoint_list.len());
        // One block stays free, so that the log's end never equals its beginning.
        let room = self.format.log_blocks().saturating_sub(1);
        if self.blocks_for(changed, revoked) <= room.saturating_sub(self.used_blocks) {
            return Ok(());
        }
        // With an empty log no block needs a revocation.
        let needed = self.blocks_for(changed, 0);
        if needed > room {
            let reason = format!(
                "a transaction is too large for the journal: {needed} blocks, at most {room}"
            );
            return Err(Error::new(ErrorKind::NoSpace, reason));
        }
        self.checkpoint(device, pool)
    }

    fn area(&self) -> LogArea<'_> {
        LogArea {
            map: &self.map,
            block_size: self.block_size,
            first: self.format.first,
            end: self.format.end,
        }
    }

    fn append(&mut self, device: &DeviceWriter, transaction: &Transaction) -> Result<()> {
        let (at, sequence) = self.head;
        let write = |at, bytes: &[u8]| device.write(at, bytes);
        let mut appender = LogAppender::new(self.area(), at, write);
        for revoked in transaction.revoked.chunks(self.records_per_block()) {
            appender.append(&self.revocation_block(revoked), &[])?;
        }
        for blocks in transaction.blocks.chunks(self.tags_per_block()) {
            appender.append(&self.descriptor_block(blocks), &[])?;
            for block in blocks {
                let head: &[u8] = if is_escaped(&block.bytes) {
                    &[0; 4]
                } else {
                    &[]
                };
                appender.append(&block.bytes, head)?;
            }
        }
        let at = appender.next();
        appender.append(&vec![0; self.block_size.len()], &[])?;
        let (_, appended) = appender.finish()?;
        device.flush()?;
        self.failed = Some(FailedCommit::AtCommitBlock(at));
        let mut appender = LogAppender::new(self.area(), at, write);
        appender.append(&self.commit_block(transaction.time), &[])?;
        let (at, _) = appender.finish()?;
        device.flush()?;
        self.head = (at, sequence.next());
        self.used_blocks = self.used_blocks.saturating_add(appended);
        Ok(())
    }

    fn revocation_block(&self, revoked: &[FsBlock]) -> Vec<u8> {
        let (_, sequence) = self.head;
        let width = self.format.record_width;
        let mut block = revocation::encode(self.block_size.len(), width, sequence, revoked);
        self.put_tail(&mut block);
        block
    }

    fn descriptor_block(&self, blocks: &[ChangedBlock]) -> Vec<u8> {
        let (_, sequence) = self.head;
        let last = blocks.len().saturating_sub(1);
        let tags = blocks.iter().enumerate().map(|(nth, block)| Tag {
            target: block.block,
            escaped: is_escaped(&block.bytes),
            last: nth == last,
            checksum: self.checksum_of(&block.bytes),
        });
        let form = self.format.tag_form;
        let mut block = descriptor::encode(self.block_size.len(), form, sequence, tags);
        self.put_tail(&mut block);
        block
    }

    /// Computes the checksum of a data block as it is in the log.
    fn checksum_of(&self, bytes: &[u8]) -> TagChecksum {
        if self.format.checksums != Checksums::V3 {
            return TagChecksum::None;
        }
        let (_, sequence) = self.head;
        let checksum = self.format.block_checksum;
        TagChecksum::Whole(if is_escaped(bytes) {
            let rest = bytes.get(4..).unwrap_or_default();
            checksum.of_data(sequence, &[&[0; 4], rest])
        } else {
            checksum.of_data(sequence, &[bytes])
        })
    }

    fn put_tail(&self, block: &mut [u8]) {
        if self.format.checksums.per_block() {
            descriptor::put_tail(block, self.format.block_checksum);
        }
    }

    fn commit_block(&self, time: Timestamp) -> Vec<u8> {
        let (_, sequence) = self.head;
        let mut block = commit::encode(self.block_size.len(), sequence, time);
        if self.format.checksums.per_block() {
            commit::put_checksum(&mut block, self.format.block_checksum);
        }
        block
    }

    /// Adds a committed transaction to the list of blocks to be checkpointed.
    fn add_to_checkpoint_list(&mut self, transaction: Transaction) {
        for block in transaction.revoked {
            self.checkpoint_list.remove(block);
        }
        self.checkpoint_list.add(transaction.id, transaction.blocks);
    }

    /// Returns true if so many blocks wait for a checkpoint that one should be done, if only to
    /// free their memory.
    pub(crate) fn is_heavy(&self) -> bool {
        const BYTES_MAX: u64 = 32 << 20;
        let blocks = len_u64(self.checkpoint_list.len());
        self.block_size.bytes_of(blocks) > BYTES_MAX
    }

    /// Returns true if any block in the log waits for a checkpoint.
    pub(crate) fn is_used(&self) -> bool {
        self.used_blocks > 0
    }

    /// Writes all blocks in the log to their final places, and empties the log.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn checkpoint(&mut self, device: &DeviceWriter, pool: &BlockPool) -> Result<()> {
        if !self.is_used() {
            return Ok(());
        }
        self.checkpoint_list.write_to_final_places(device, pool)?;
        let (head, sequence) = self.head;
        self.write_superblock(device.device(), Some(head), sequence)?;
        device.flush()?;
        self.tail = self.head;
        self.used_blocks = 0;
        Ok(())
    }

    /// Checkpoints the log, and marks it as empty.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn close(&mut self, device: &DeviceWriter, pool: &BlockPool) -> Result<()> {
        if self.superblock_is_dirty && !self.is_used() {
            // Nothing was ever committed.
            return Ok(());
        }
        self.checkpoint_list.write_to_final_places(device, pool)?;
        let (_, sequence) = self.head;
        self.write_superblock(device.device(), None, sequence)?;
        device.flush()?;
        self.used_blocks = 0;
        Ok(())
    }

    /// Records in the journal's superblock that an error ended writing; the contents of the log are
    /// kept.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn mark_error(&mut self, device: &DeviceWriter, errno: i32) -> Result<()> {
        let (tail, sequence) = self.tail;
        self.stored.set_error(errno);
        let start = self.is_used().then_some(tail);
        self.write_superblock(device.device(), start, sequence)
    }

    fn write_superblock(
        &mut self,
        device: &dyn BlockWrite,
        start: Option<LogBlock>,
        sequence: Sequence,
    ) -> Result<()> {
        let (head, _) = self.head;
        self.stored.set_log(LogState {
            start,
            sequence,
            head,
        });
        let at = self.block_size.byte_of(self.map.device_block(LogBlock(0))?);
        device
            .write_at(at, self.stored.sealed())
            .map_err(write_failed)?;
        self.superblock_is_dirty = false;
        Ok(())
    }
}

/// Returns the sequence number of the next transaction. As in Linux, one number is left out after a
/// replayed log: blocks after its end, of a damaged transaction or a fast commit, may have that
/// number. Fast commits after a clean log should have an earlier number, but they were not checked.
fn next_sequence(journal: &Journal, replayed: Option<&Replayed>) -> Sequence {
    let sequence = journal.superblock.sequence;
    match replayed {
        Some(replayed) => replayed.next.next(),
        None if journal.superblock.fast_commits.is_some() => sequence.next(),
        None => sequence,
    }
}

/// Returns true if a block begins like one of the log's own, and must be escaped.
fn is_escaped(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_be_bytes())
}
