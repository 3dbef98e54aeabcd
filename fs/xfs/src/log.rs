//! The log: whether it is clean, and its replay into memory.
//!
//! The log is a ring of records. The search for its ends is in `head` and `tail`; `records` reads
//! the records between them, `transactions` joins their operations to transactions, and `replay`
//! applies these to an overlay. `DESIGN.md` says what is replayed, and what is refused.
//!
//! Sources: "XFS Algorithms & Data Structures", section "Journaling Log"; the kernel's
//! documentation "XFS Logging Design"; the kernel's behaviour, with which the tests compare.

mod buffer_format;
mod cancelled;
mod counters;
mod extent_list;
mod finish_mapping;
mod finish_owners;
mod fork_place;
mod head;
mod inode_format;
mod intents;
mod item;
mod log_dinode;
mod log_reader;
mod lsn;
mod mapping_change;
mod mapping_tree;
mod operation;
mod owner_changes;
mod record_header;
mod records;
mod replay;
mod replay_buffer;
mod replay_icreate;
mod replay_inode;
mod self_describing;
mod tail;
#[cfg(test)]
mod tests;
mod transaction;
mod transactions;

use std::sync::Arc;

use diskfs_block::BlockRead;

use crate::error::{Result, unsupported};
use crate::superblock::Superblock;

use self::buffer_format::{BufferFlags, BufferFormat};
use self::cancelled::Cancelled;
use self::item::ItemType;
use self::log_reader::LogReader;
use self::records::{Record, Records};
use self::replay::{Replay, Replayed};
use self::tail::DirtySpan;
use self::transaction::Transaction;
use self::transactions::{Refusal, Transactions};

/// The known flags of `sb_features_log_incompat`: extended attributes as intents.
const LOG_INCOMPATIBLE_KNOWN: u32 = 1;

/// A filesystem after the recovery of its log.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The device, with the log replayed in memory if it was dirty.
    pub(crate) device: Arc<dyn BlockRead>,
    /// True if the log was dirty.
    pub(crate) is_replayed: bool,
    /// The notes for the identity.
    pub(crate) notes: Vec<String>,
}

/// Replays the log into memory, unless it is clean. No byte of the device is changed.
///
/// # Errors
/// `Corrupt` for a log that the kernel does not recover; `Unsupported` for an external log, for
/// unknown features and items, for unfinished changes of files, and beyond the limits; `Io`.
pub(crate) fn recover(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Result<Recovered> {
    if superblock.log_start.is_none() {
        return Err(unsupported("the log is on another device"));
    }
    let mut log = LogReader::new(Arc::clone(&device), superblock)?;
    let Some(span) = tail::find(&mut log)? else {
        return Ok(Recovered {
            device,
            is_replayed: false,
            notes: Vec::new(),
        });
    };
    check_features(superblock)?;
    let mut cancelled = Cancelled::default();
    for_each_transaction(&log, span, |transaction, _| {
        collect_cancelled(transaction, &mut cancelled)
    })?;
    let mut replay = Replay::new(device, superblock, cancelled);
    for_each_transaction(&log, span, |transaction, at| replay.commit(transaction, at))?;
    let replayed = replay.finish()?;
    let notes = replayed.notes();
    Ok(Recovered {
        device: Arc::new(replayed.overlay),
        is_replayed: true,
        notes,
    })
}

fn check_features(superblock: &Superblock) -> Result<()> {
    let unknown = superblock.features.log_incompatible & !LOG_INCOMPATIBLE_KNOWN;
    if unknown == 0 {
        return Ok(());
    }
    Err(unsupported(format!(
        "unsupported XFS features: the log is dirty, and has the unknown flags {unknown:#x} \
         (log-incompat)"
    )))
}

/// Calls `apply` with each complete transaction, in the order of their commits, and with the byte
/// of the device at which the record of its commit starts.
fn for_each_transaction(
    log: &LogReader,
    span: DirtySpan,
    mut apply: impl FnMut(&Transaction, u64) -> Result<()>,
) -> Result<()> {
    let records = Records::between(log, span.tail, span.head);
    let mut records = records.map_err(|e| e.error)?;
    let mut transactions = Transactions::default();
    while let Some(record) = records.next_for_replay()? {
        apply_record(log, &record, &mut transactions, &mut apply)?;
    }
    Ok(())
}

/// Adds the operations of a record to their transactions, and applies those that are complete.
fn apply_record(
    log: &LogReader,
    record: &Record,
    transactions: &mut Transactions,
    apply: &mut impl FnMut(&Transaction, u64) -> Result<()>,
) -> Result<()> {
    let header = &record.header;
    let mut rest = record.payload.as_slice();
    for _ in 0..header.operations {
        if rest.is_empty() {
            break;
        }
        let invalid = |reason| log.corrupt(reason, header.block);
        let taken = operation::take(rest);
        let (operation, after) = taken.ok_or_else(|| invalid("an operation exceeds its record"))?;
        rest = after;
        let done = transactions
            .add(&operation, header.lsn)
            .map_err(|refusal| match refusal {
                Refusal::Invalid(reason) => invalid(reason),
                Refusal::TooLarge(limit) => unsupported(format!(
                    "unsupported log: unfinished transactions exceed {limit}"
                )),
            })?;
        if let Some(done) = done {
            apply(&done, log.byte_of(header.block))?;
        }
    }
    Ok(())
}

/// Adds the cancelled buffers of a transaction to the table.
fn collect_cancelled(transaction: &Transaction, cancelled: &mut Cancelled) -> Result<()> {
    for item in &transaction.items {
        if item.item_type() == ItemType::BUFFER
            && let Some(format) = BufferFormat::parse(item.format())
            && format.flags.contains(BufferFlags::CANCEL)
        {
            cancelled.add(format.place)?;
        }
    }
    Ok(())
}

impl Replayed {
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "log replayed in memory ({} transactions)",
            self.transactions
        )];
        let extents = self.unfinished.free_extents;
        if extents > 0 {
            notes.push(format!("extents that the log has not freed yet: {extents}"));
        }
        let mappings = self.unfinished.mappings.len();
        if mappings > 0 {
            notes.push(format!(
                "changes of mappings finished in memory: {mappings}"
            ));
        }
        notes
    }
}
