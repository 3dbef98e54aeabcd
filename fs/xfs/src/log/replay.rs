//! Replaying transactions into an overlay in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};

use crate::bytes::len_u64;
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed, unsupported};
use crate::superblock::Superblock;

use super::buffer_format::{BufferFlags, BufferFormat, BufferPlace};
use super::cancelled::Cancelled;
use super::intents::{Intents, Unfinished};
use super::item::{Item, ItemType};
use super::lsn::Lsn;
use super::owner_changes::OwnerChanges;
use super::transaction::Transaction;

/// The largest size of the changed blocks in memory. The log of a large filesystem has 2 GiB at
/// most, and contains most blocks many times.
const OVERLAY_BYTES_MAX: u64 = 512 << 20;

/// The largest number of bytes that a replay reads and writes: some ten seconds. An item of a few
/// bytes can change a block of 64 KiB, so the size of the log is no limit.
const WORK_BYTES_MAX: u64 = 32 << 30;

/// The state of a replay.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    pub(super) superblock: Cow<'a, Superblock>,
    overlay: Overlay,
    pub(super) cancelled: Cancelled,
    /// The buffers that were changed since the last [`stamp_buffers`](Self::stamp_buffers), and the
    /// types of their contents.
    pub(super) unstamped: HashMap<BufferPlace, u16>,
    /// The LSN of the transactions whose buffers are unstamped.
    batch: Option<Lsn>,
    intents: Intents,
    pub(super) owner_changes: OwnerChanges,
    work_bytes: u64,
    /// The byte of the log at which the current transaction starts, for errors.
    at: u64,
    /// The number of replayed transactions.
    transactions: u64,
}

impl<'a> Replay<'a> {
    /// Starts a replay over a device.
    pub(super) fn new(
        device: Arc<dyn BlockRead>,
        superblock: &'a Superblock,
        cancelled: Cancelled,
    ) -> Self {
        Self {
            superblock: Cow::Borrowed(superblock),
            overlay: Overlay::in_memory(device, OVERLAY_BYTES_MAX),
            cancelled,
            unstamped: HashMap::new(),
            batch: None,
            intents: Intents::default(),
            owner_changes: OwnerChanges::default(),
            work_bytes: 0,
            at: 0,
            transactions: 0,
        }
    }

    /// Replays a transaction, whose record starts at byte `at` of the device.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` for unknown items and beyond the limits, `Io`.
    pub(super) fn commit(&mut self, transaction: &Transaction, at: u64) -> Result<()> {
        self.at = at;
        let lsn = transaction.lsn;
        if let Some(before) = self.batch.replace(lsn)
            && before != lsn
        {
            self.stamp_buffers(before)?;
        }
        for group in [
            Group::Buffers,
            Group::Items,
            Group::InodeBuffers,
            Group::Cancellations,
        ] {
            for item in &transaction.items {
                if self.group(item)? == group {
                    self.item(item, lsn)?;
                }
            }
        }
        self.transactions = self.transactions.saturating_add(1);
        Ok(())
    }

    /// Ends the replay.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit); `Unsupported` for an unfinished change of a file.
    pub(super) fn finish(mut self) -> Result<Replayed> {
        if let Some(lsn) = self.batch.take() {
            self.stamp_buffers(lsn)?;
        }
        self.finish_owners()?;
        let unfinished = self.intents.finish()?;
        for change in &unfinished.mappings {
            self.finish_mapping(change)?;
        }
        self.recount()?;
        Ok(Replayed {
            overlay: self.overlay,
            transactions: self.transactions,
            unfinished,
        })
    }

    fn group(&self, item: &Item) -> Result<Group> {
        Ok(match item.item_type() {
            ItemType::BUFFER => {
                let format = BufferFormat::parse(item.format());
                let flags = format.map(|format| format.flags);
                let flags =
                    flags.ok_or_else(|| self.invalid("a buffer item has an invalid format"))?;
                if flags.contains(BufferFlags::CANCEL) {
                    Group::Cancellations
                } else if flags.contains(BufferFlags::INODE_BUFFER) {
                    Group::InodeBuffers
                } else {
                    Group::Buffers
                }
            }
            ItemType::ICREATE => Group::Buffers,
            _ => Group::Items,
        })
    }

    fn item(&mut self, item: &Item, lsn: Lsn) -> Result<()> {
        match item.item_type() {
            ItemType::BUFFER => self.buffer(item, lsn),
            ItemType::INODE => self.inode(item, lsn),
            ItemType::ICREATE => self.icreate(item),
            // Quota is not read, and lists of unlinked inodes are logged in their buffers.
            ItemType::DQUOT | ItemType::QUOTAOFF | ItemType::IUNLINK => Ok(()),
            _ if self.intents.add(item)? => Ok(()),
            ItemType(other) => {
                let reason = format!("unsupported log: it contains items of type {other:#06x}");
                Err(unsupported(reason))
            }
        }
    }

    /// Returns the error for an invalid item of the current transaction.
    pub(super) fn invalid(&self, reason: &str) -> Error {
        corrupt(format!("invalid log: {reason}"), self.at)
    }

    /// Returns the byte of the log at which the current transaction starts.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the device with all changes until now.
    pub(super) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Returns the size of the device.
    pub(super) fn device_bytes(&self) -> u64 {
        self.overlay.size_bytes()
    }

    /// Reads bytes of the filesystem, with all changes until now.
    ///
    /// # Errors
    /// `Corrupt` beyond the end of the filesystem, `Unsupported` beyond the limit of work, `Io`.
    pub(super) fn read(&mut self, byte: u64, len: usize) -> Result<Vec<u8>> {
        self.check(byte, len_u64(len))?;
        let mut bytes = vec![0; len];
        self.overlay
            .read_at(byte, &mut bytes)
            .map_err(device_failed)?;
        Ok(bytes)
    }

    /// Writes bytes of the filesystem in memory.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and `Unsupported` beyond the limit of memory.
    pub(super) fn write(&mut self, byte: u64, bytes: &[u8]) -> Result<()> {
        self.check(byte, len_u64(bytes.len()))?;
        self.overlay
            .write_at(byte, bytes)
            .map_err(|e| match e.kind() {
                diskfs_block::ErrorKind::NoSpace => unsupported(format!(
                    "unsupported log: it changes more than {} MiB",
                    OVERLAY_BYTES_MAX >> 20
                )),
                _ => device_failed(e),
            })
    }

    /// Checks that a range lies within the filesystem, and counts its bytes as work.
    fn check(&mut self, byte: u64, len: u64) -> Result<()> {
        let end = self.superblock.bytes_of(self.superblock.blocks);
        if byte.checked_add(len).is_none_or(|last| last > end) {
            return Err(self.invalid("a transaction changes a block beyond the filesystem's end"));
        }
        self.work_bytes = self.work_bytes.saturating_add(len);
        if self.work_bytes > WORK_BYTES_MAX {
            let limit = WORK_BYTES_MAX >> 30;
            let reason = format!("unsupported log: its replay copies more than {limit} GiB");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(())
    }
}

/// The result of a replay.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) overlay: Overlay,
    /// The number of replayed transactions.
    pub(super) transactions: u64,
    pub(super) unfinished: Unfinished,
}

/// The items of a transaction that are replayed together, in this order: inodes after the buffers
/// that contain them, and cancellations last, after the changes that they don't concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Buffers,
    Items,
    InodeBuffers,
    Cancellations,
}
