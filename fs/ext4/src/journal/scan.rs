//! The scan of the log: it finds the complete transactions and their contents.
//!
//! A transaction consists of descriptor blocks, each followed by its data blocks, and revocation
//! blocks, in any order, and finally a commit block. All but data blocks begin with the log's magic
//! number and the transaction's sequence number. The first block that does not is the end of the
//! log.

use diskfs_vfs::{Error, Result};

use super::block_header::{BlockType, Sequence, block_type};
use super::checksum::TransactionChecksum;
use super::commit::Commit;
use super::descriptor::{self, TAIL_BYTES};
use super::error::{Damage, corrupt_block};
use super::features::Checksums;
use super::log::{LogBlock, LogReader};
use super::replay::{LoggedBlock, PackedLogBlock, TransactionIndex};
use super::revocation;
use super::superblock::JournalSuperblock;
use super::tag::Tag;

/// The contents of the complete transactions of a log, in its order.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) blocks: Vec<LoggedBlock>,
    pub(super) revocations: Vec<(LogBlock, TransactionIndex)>,
    /// The number of transactions.
    pub(super) transactions: u32,
    /// The sequence number of the transaction after them.
    pub(super) next: Sequence,
    /// The log block where that transaction would begin.
    pub(super) end: LogBlock,
    /// The reason why the last transaction was left out, if it is damaged.
    pub(super) left_out: Option<Damage>,
}

/// The lengths of the lists at the start of a transaction, so that it can be undone.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    blocks: usize,
    revocations: usize,
}

/// The next step after a block.
enum ScanStep {
    Continue,
    /// The log ends before this block, or before its transaction.
    End,
}

#[derive(Debug)]
pub(super) struct Scan<'a, 'd> {
    superblock: &'a JournalSuperblock,
    reader: &'a mut LogReader<'d>,
    /// The number of blocks of the filesystem, which bounds the block numbers in tags.
    fs_blocks: u64,
    at: LogBlock,
    /// The number of blocks until the whole ring has been read once.
    left: u32,
    sequence: Sequence,
    found: Scanned,
    mark: Mark,
    sum: TransactionChecksum,
    damage: Option<Damage>,
    committed_seconds: u64,
}

impl<'a, 'd> Scan<'a, 'd> {
    pub(super) fn new(
        superblock: &'a JournalSuperblock,
        reader: &'a mut LogReader<'d>,
        start: LogBlock,
        fs_blocks: u64,
    ) -> Self {
        Self {
            superblock,
            reader,
            fs_blocks,
            at: start,
            left: superblock.log_blocks(),
            sequence: superblock.sequence,
            found: Scanned {
                blocks: Vec::new(),
                revocations: Vec::new(),
                transactions: 0,
                next: superblock.sequence,
                end: start,
                left_out: None,
            },
            mark: Mark::default(),
            sum: TransactionChecksum::new(),
            damage: None,
            committed_seconds: 0,
        }
    }

    /// Scans the log to its end.
    ///
    /// # Errors
    /// `Corrupt` if a transaction is damaged and another one follows it: then it was complete once,
    /// and the later one depends on it.
    pub(super) fn run(mut self) -> Result<Scanned> {
        while let Some(block) = self.take() {
            if let ScanStep::End = self.step(block)? {
                break;
            }
        }
        // Blocks without a following commit block never were a transaction.
        self.take_back();
        Ok(self.found)
    }

    /// Returns the next block of the log, or `None` after all have been taken.
    fn take(&mut self) -> Option<LogBlock> {
        self.left = self.left.checked_sub(1)?;
        let block = self.at;
        let next = block.0.saturating_add(1);
        self.at = if next >= self.superblock.end.0 {
            self.superblock.first
        } else {
            LogBlock(next)
        };
        Some(block)
    }

    fn step(&mut self, block: LogBlock) -> Result<ScanStep> {
        match block_type(self.reader.block(block)?, self.sequence) {
            Some(BlockType::Descriptor) => self.descriptor(block),
            Some(BlockType::Revocation) => self.revocation(block),
            Some(BlockType::Commit) => self.commit(block),
            _ => Ok(ScanStep::End),
        }
    }

    /// Records a damage; only the first one of a transaction is reported.
    fn damaged(&mut self, damage: Damage) {
        self.damage.get_or_insert(damage);
    }

    fn tail_bytes(&self) -> usize {
        if self.superblock.checksums.per_block() {
            TAIL_BYTES
        } else {
            0
        }
    }

    fn descriptor(&mut self, block: LogBlock) -> Result<ScanStep> {
        let (form, tail_bytes) = (self.superblock.tag_form, self.tail_bytes());
        let bytes = self.reader.block(block)?;
        let right = !self.superblock.checksums.per_block()
            || descriptor::tail_is_right(bytes, self.superblock.block_checksum);
        if self.superblock.checksums == Checksums::V1 {
            self.sum.update(bytes);
        }
        // Reading data replaces the reader's buffer, so the tags are collected first. There are no
        // more than fit into a block.
        let tags: Vec<Tag> = descriptor::tags(bytes, form, tail_bytes).collect();
        if !right {
            self.damaged(Damage::Descriptor(block));
        }
        for tag in tags {
            let Some(data) = self.take() else {
                return Ok(ScanStep::End);
            };
            self.data(data, &tag)?;
        }
        Ok(ScanStep::Continue)
    }

    fn data(&mut self, block: LogBlock, tag: &Tag) -> Result<()> {
        let target = tag.target;
        if target.0 >= self.fs_blocks {
            self.damaged(Damage::Target { log: block, target });
        }
        if self.damage.is_some() {
            return Ok(());
        }
        match self.superblock.checksums {
            Checksums::None => {}
            Checksums::V1 => self.sum.update(self.reader.block(block)?),
            Checksums::V2 | Checksums::V3 => {
                let bytes = self.reader.block(block)?;
                let computed = self
                    .superblock
                    .block_checksum
                    .of_data(self.sequence, &[bytes]);
                if !tag.checksum.matches(computed) {
                    self.damaged(Damage::Data { log: block, target });
                }
            }
        }
        self.found.blocks.push(LoggedBlock {
            target,
            log: PackedLogBlock::new(block, tag.escaped),
            transaction: self.index(),
        });
        Ok(())
    }

    fn revocation(&mut self, block: LogBlock) -> Result<ScanStep> {
        let tail_bytes = self.tail_bytes();
        let bytes = self.reader.block(block)?;
        if tail_bytes > 0 && !descriptor::tail_is_right(bytes, self.superblock.block_checksum) {
            self.damaged(Damage::Revocation(block));
        } else if revocation::records(bytes, self.superblock.record_width, tail_bytes).is_err() {
            self.damaged(Damage::RevocationLength(block));
        }
        let index = self.index();
        self.found.revocations.push((block, index));
        Ok(ScanStep::Continue)
    }

    fn commit(&mut self, block: LogBlock) -> Result<ScanStep> {
        let bytes = self.reader.block(block)?;
        let commit = Commit::parse(bytes).ok_or_else(|| corrupt_block(block, "truncated"))?;
        let seconds = commit.time_seconds();
        let damage = match self.superblock.checksums {
            Checksums::None => None,
            Checksums::V1 => (!commit.sums_up(self.sum)).then_some(Damage::Transaction(block)),
            Checksums::V2 | Checksums::V3 => {
                (!commit.is_right(self.superblock.block_checksum)).then_some(Damage::Commit(block))
            }
        };
        if let Some(damage) = damage {
            self.damaged(damage);
        }
        if self.damage.is_some() && seconds < self.committed_seconds {
            // Left over from an earlier use of these blocks: the log ends before it.
            return Ok(ScanStep::End);
        }
        if let Some(left_out) = self.found.left_out {
            return Err(self.followed(left_out));
        }
        self.committed_seconds = seconds;
        self.end_transaction();
        Ok(ScanStep::Continue)
    }

    fn end_transaction(&mut self) {
        self.sequence = self.sequence.next();
        self.sum = TransactionChecksum::new();
        if let Some(damage) = self.damage.take() {
            self.take_back();
            self.found.left_out = Some(damage);
        } else {
            self.found.next = self.sequence;
            self.found.end = self.at;
            self.found.transactions = self.found.transactions.saturating_add(1);
            self.mark.blocks = self.found.blocks.len();
            self.mark.revocations = self.found.revocations.len();
        }
    }

    /// Drops everything after the last complete transaction.
    fn take_back(&mut self) {
        self.found.blocks.truncate(self.mark.blocks);
        self.found.revocations.truncate(self.mark.revocations);
    }

    fn index(&self) -> TransactionIndex {
        TransactionIndex(self.found.transactions)
    }

    fn followed(&self, damage: Damage) -> Error {
        let (bad, good) = (self.found.next, self.sequence);
        let at = damage.log_block();
        corrupt_block(
            at,
            format_args!(
                "transaction {bad} is damaged, although transaction {good} follows it: {damage}"
            ),
        )
    }
}
