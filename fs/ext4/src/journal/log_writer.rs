//! The journal, written.
//!
//! # A commit
//!
//! Revocation blocks, descriptor blocks and data are written, and flushed; then the commit block is
//! written, and flushed. Files' contents were written before (`data=ordered`), so the first flush is
//! theirs, too. Neither flush can be left out: without the first one the commit block may be durable
//! before what it stands for, and of that only the metadata has checksums; without the second one
//! nobody could be told that the transaction is durable. With the first goes a block of zeroes to
//! where the commit block will be: that has all it says in its first sector, and is whole as soon as
//! this is written, whatever a disk that tears it leaves of the others. The journal's superblock, where it has
//! something new to say, goes with the first: until there is a commit block, a log that begins with
//! this transaction is empty, whatever else is in it.
//!
//! # A checkpoint
//!
//! The log holds what [`Unsettled`] lists. When it is full (or that list is, or nothing happens for a
//! while), everything on the list is written home and flushed, and only then the superblock says that
//! the log begins behind it, and is flushed before anything goes over the old log. So the log on the
//! device is always either whole or needed no more.
//!
//! # Revocations
//!
//! A block of metadata that was freed needs a revocation only if the log holds a version of it; after
//! a checkpoint it holds none. So there are never more of them than the list is long.

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::block::{BlockSize, FsBlock};
use crate::bytes::{index, len_u64};
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result, write_failed};
use crate::features::Features;
use crate::pool::{BlockPool, ChangedBlock, TransactionId};

use super::block_header::{MAGIC, Sequence};
use super::commit;
use super::descriptor::{self, TAIL_BYTES};
use super::error::corrupt_superblock;
use super::features::Checksums;
use super::log::{LogBlock, LogMap};
use super::log_appender::{LogAppender, LogArea};
use super::revocation;
use super::superblock::{JournalSuperblock, LogState, StoredSuperblock};
use super::tag::{Tag, TagChecksum};
use super::unsettled::Unsettled;
use super::{Journal, Replayed};

/// A transaction to be made durable.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    /// The blocks that it changed, in order, as it left them.
    pub(crate) blocks: Vec<ChangedBlock>,
    /// The blocks of metadata that it freed.
    pub(crate) revoked: Vec<FsBlock>,
}

/// How much of the log one transaction may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogShare {
    /// A quarter as in Linux, so that a commit seldom waits for a checkpoint.
    Quarter,
    /// The whole log, for changes that belong together: replaying has no limit but the log's end.
    Whole,
}

/// How much memory the blocks of one transaction may take.
const QUARTER_BYTES_MAX: u32 = 16 << 20;
const WHOLE_BYTES_MAX: u32 = 64 << 20;

/// Writes transactions to the journal. See the [module](self).
#[derive(Debug)]
pub(crate) struct LogWriter {
    block_size: BlockSize,
    map: LogMap,
    /// The features, and where the log's blocks are; not what it held when it was opened.
    format: JournalSuperblock,
    stored: StoredSuperblock,
    /// The superblock on the device does not say what it must before the next commit.
    stored_is_news: bool,
    /// The fast commits count until the next transaction is whole.
    fast_commits_count: bool,
    /// Where the oldest transaction begins that is not home, and its number.
    tail: (LogBlock, Sequence),
    /// Where the next transaction begins, and its number.
    head: (LogBlock, Sequence),
    /// How many blocks lie between the two.
    used_blocks: u32,
    /// What the log holds.
    unsettled: Unsettled,
    /// A commit failed when this was written last.
    failed: Option<Failed>,
}

/// Where a commit is, as long as it may fail.
#[derive(Debug, Clone, Copy)]
enum Failed {
    /// Its commit block may be there, at this place.
    AtCommitBlock(LogBlock),
    /// The commit block is there, and the superblock with which it counts may be.
    AtSuperblock,
}

impl LogWriter {
    /// For a journal whose log, if it has one, was gone through (`replayed`). It must be
    /// [`reset`](Self::reset) before anything is committed. Nothing is written.
    ///
    /// # Errors
    /// `Unsupported` and `Corrupt` for journals that can't be written.
    pub(crate) fn new(
        journal: Journal,
        filesystem: Features,
        replayed: Option<&Replayed>,
    ) -> Result<Self> {
        /// `JBD2_MIN_JOURNAL_BLOCKS`.
        const LOG_BLOCKS_MIN: u32 = 1024;
        let sequence = next_sequence(&journal, replayed);
        let mut stored = journal.stored;
        stored.check_writable()?;
        stored.set_features(filesystem);
        let format = JournalSuperblock::parse(stored.sealed(), journal.block_size)?;
        // Block 0, the superblock, counts here.
        if format.log_blocks().saturating_add(1) < LOG_BLOCKS_MIN {
            return Err(corrupt_superblock(format_args!(
                "its log has {} blocks, fewer than Linux needs",
                format.log_blocks()
            )));
        }
        let begin = (format.first, sequence);
        Ok(Self {
            block_size: journal.block_size,
            map: journal.map,
            format,
            stored,
            stored_is_news: true,
            fast_commits_count: false,
            tail: begin,
            head: begin,
            used_blocks: 0,
            unsettled: Unsettled::default(),
            failed: None,
        })
    }

    /// Says on the device that there is no log, once it is home or known to be out of date.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn reset(&mut self, device: &dyn BlockWrite) -> Result<()> {
        let (_, sequence) = self.head;
        self.write_superblock(device, None, sequence)?;
        self.stored_is_news = true;
        device.flush().map_err(write_failed)
    }

    /// The same for a log with fast commits behind it, which hold until the next transaction does:
    /// the log is emptied, but by a superblock with which they count. They belong to the transaction
    /// after those that were replayed; the one that takes their place is the one after that, so that
    /// nothing of it looks like theirs. The superblock passes from the one to the other when that is
    /// whole.
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
        self.fast_commits_count = true;
        device.flush().map_err(write_failed)
    }

    /// Returns how many blocks one transaction may change.
    pub(crate) fn blocks_max(&self, share: LogShare) -> u32 {
        let log_blocks = self.format.log_blocks();
        let (blocks, bytes_max) = match share {
            LogShare::Quarter => (log_blocks.wrapping_div(4), QUARTER_BYTES_MAX),
            // One block stays free, so that the log's end never is its beginning.
            LogShare::Whole => (log_blocks.saturating_sub(1), WHOLE_BYTES_MAX),
        };
        let blocks = blocks.min(bytes_max.wrapping_shr(self.block_size.bits()));
        let overhead = self.blocks_for(index(blocks), 0).saturating_sub(blocks);
        blocks.saturating_sub(overhead)
    }

    /// How many blocks of the log a transaction takes.
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
    /// `NoSpace` when the whole log is too small for it, or the host is full; `Io`.
    pub(crate) fn commit(
        &mut self,
        device: &DeviceWriter,
        pool: &BlockPool,
        mut transaction: Transaction,
    ) -> Result<()> {
        self.make_room(device, pool, &transaction)?;
        transaction
            .revoked
            .retain(|&block| self.unsettled.contains(block));
        let (tail, sequence) = self.tail;
        if !transaction.revoked.is_empty() && self.stored.set_revoke() {
            self.stored_is_news = true;
        }
        if self.stored_is_news && !self.fast_commits_count {
            self.write_superblock(device.device(), Some(tail), sequence)?;
        }
        self.append(device, &transaction)?;
        if self.fast_commits_count {
            self.failed = Some(Failed::AtSuperblock);
            self.write_superblock(device.device(), Some(tail), sequence)?;
            device.flush()?;
            self.fast_commits_count = false;
        }
        self.failed = None;
        self.settle(transaction);
        Ok(())
    }

    /// Makes a commit that failed one that never was: with zeroes where its commit block may be, the
    /// log ends before it.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; then it may be there after all.
    pub(crate) fn take_back(&mut self, device: &DeviceWriter) -> Result<()> {
        match self.failed {
            None => return Ok(()),
            Some(Failed::AtSuperblock) => {
                let reason = "the journal's superblock may count it";
                return Err(Error::new(ErrorKind::Io, reason));
            }
            Some(Failed::AtCommitBlock(at)) => {
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
        let revoked = revoked.min(self.unsettled.len());
        // One block stays free, so that the log's end never is its beginning.
        let room = self.format.log_blocks().saturating_sub(1);
        if self.blocks_for(changed, revoked) <= room.saturating_sub(self.used_blocks) {
            return Ok(());
        }
        // Without anything in the log there is nothing to be revoked.
        let needed = self.blocks_for(changed, 0);
        if needed > room {
            let reason =
                format!("a transaction of {needed} blocks does not fit into the journal's {room}");
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
        self.failed = Some(Failed::AtCommitBlock(at));
        let mut appender = LogAppender::new(self.area(), at, write);
        appender.append(&self.commit_block(), &[])?;
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

    /// Of a data block, as it is in the log.
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

    fn commit_block(&self) -> Vec<u8> {
        let (_, sequence) = self.head;
        let mut block = commit::encode(self.block_size.len(), sequence, Timestamp::now());
        if self.format.checksums.per_block() {
            commit::put_checksum(&mut block, self.format.block_checksum);
        }
        block
    }

    /// Notes what the log holds now.
    fn settle(&mut self, transaction: Transaction) {
        for block in transaction.revoked {
            self.unsettled.remove(block);
        }
        self.unsettled.add(transaction.id, transaction.blocks);
    }

    /// Whether there is so much in the log that it is time to bring it home, if only for the memory
    /// it takes.
    pub(crate) fn is_heavy(&self) -> bool {
        const BYTES_MAX: u64 = 32 << 20;
        let blocks = len_u64(self.unsettled.len());
        self.block_size.bytes_of(blocks) > BYTES_MAX
    }

    /// Whether the log holds anything.
    pub(crate) fn is_used(&self) -> bool {
        self.used_blocks > 0
    }

    /// Brings home what the log holds, and empties it.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn checkpoint(&mut self, device: &DeviceWriter, pool: &BlockPool) -> Result<()> {
        if !self.is_used() {
            return Ok(());
        }
        self.unsettled.write_home(device, pool)?;
        let (head, sequence) = self.head;
        self.write_superblock(device.device(), Some(head), sequence)?;
        device.flush()?;
        self.tail = self.head;
        self.used_blocks = 0;
        Ok(())
    }

    /// Brings home what the log holds, and says that there is none.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn close(&mut self, device: &DeviceWriter, pool: &BlockPool) -> Result<()> {
        if self.stored_is_news && !self.is_used() {
            // Nothing was ever committed.
            return Ok(());
        }
        self.unsettled.write_home(device, pool)?;
        let (_, sequence) = self.head;
        self.write_superblock(device.device(), None, sequence)?;
        device.flush()?;
        self.used_blocks = 0;
        Ok(())
    }

    /// Says that an error ended writing; what is in the log stays there.
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
        self.stored_is_news = false;
        Ok(())
    }
}

/// The number of the next transaction. As in Linux one is left out behind a log that was replayed:
/// what follows it there, damaged or a fast commit, has that number. Fast commits that were left
/// behind by a log in good order should have an earlier one, but nobody has looked at them.
fn next_sequence(journal: &Journal, replayed: Option<&Replayed>) -> Sequence {
    let sequence = journal.superblock.sequence;
    match replayed {
        Some(replayed) => replayed.next.next(),
        None if journal.superblock.fast_commits.is_some() => sequence.next(),
        None => sequence,
    }
}

/// Whether a block would be taken for one of the log's own.
fn is_escaped(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_be_bytes())
}
