//! Searching the tail of the log, and cutting records off that a crash left incomplete.
//!
//! The last record says where the tail was when it was written. The records under way at a crash
//! can be torn: a wrong checksum among the last eight ends the log before that record.

use crate::error::{Error, Result};

use super::head::{self, RECORDS_UNDER_WAY};
use super::log_reader::{BLOCK_BITS, LogReader, is_header};
use super::record_header::RecordHeader;
use super::records::{RecordError, Records};

/// The offset of the flags in an operation's header, `oh_flags`.
const FLAGS_OFFSET: usize = 9;
/// The flag of the operation that a clean unmount writes, `XLOG_UNMOUNT_TRANS`.
const UNMOUNT: u8 = 0x20;

/// The part of the log that must be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirtySpan {
    /// The block of the first record's header.
    pub(super) tail: u32,
    /// The block after the last record.
    pub(super) head: u32,
}

/// Returns the part of the log that must be replayed; `None` if the log is clean.
///
/// # Errors
/// `Corrupt` for damage that no crash causes, `Io`.
pub(super) fn find(log: &mut LogReader) -> Result<Option<DirtySpan>> {
    let Some(mut head) = head::find(log)? else {
        return Ok(None);
    };
    let mut last = last_record(log, head, head)?;
    if is_unmount(log, &last, head)? {
        return Ok(None);
    }
    let mut tail = tail_of(log, &last)?;
    let torn = first_torn(log, tail, head)?;
    if let Some(torn) = torn {
        last = last_record(log, torn, tail)?;
        head = torn;
        tail = tail_of(log, &last)?;
        if head == tail {
            return Ok(None);
        }
    }
    tail = checked_tail(log, tail, head, last.size)?;
    if tail == head || (torn.is_some() && is_unmount(log, &last, head)?) {
        return Ok(None);
    }
    Ok(Some(DirtySpan { tail, head }))
}

/// Returns the block of the tail, as a record says.
fn tail_of(log: &LogReader, last: &RecordHeader) -> Result<u32> {
    let tail = last.tail_lsn.block();
    if tail < log.blocks {
        return Ok(tail);
    }
    let reason = format!("its tail {} lies outside of it", last.tail_lsn);
    Err(log.corrupt(reason, last.block))
}

/// Returns true if a record is that of a clean unmount, and the head follows it.
fn is_unmount(log: &mut LogReader, last: &RecordHeader, head: u32) -> Result<bool> {
    let payload = u64::from(last.block).saturating_add(u64::from(last.header_blocks(log)));
    let end = payload.saturating_add(u64::from(last.payload_blocks()));
    if log.wrap(end) != head || last.operations != 1 {
        return Ok(false);
    }
    let operation = log.block(log.wrap(payload))?;
    Ok(operation
        .get(FLAGS_OFFSET)
        .is_some_and(|flags| flags & UNMOUNT != 0))
}

/// Returns the first torn record of the last eight; `None` if there is none.
fn first_torn(log: &mut LogReader, tail: u32, head: u32) -> Result<Option<u32>> {
    let start = headers_before(log, head, tail, RECORDS_UNDER_WAY)?;
    let Some(start) = start.last() else {
        return Ok(None);
    };
    match verify(log, *start, head) {
        Ok(()) => Ok(None),
        Err(e) => torn_block(e).map(Some),
    }
}

/// Returns the block of a torn record.
///
/// # Errors
/// Returns an error of the device, and that of a torn record in block 0: the kernel takes 0 for
/// "none" and fails, too.
fn torn_block(error: RecordError) -> Result<u32> {
    if error.is_torn() && error.block != 0 {
        Ok(error.block)
    } else {
        Err(error.error)
    }
}

/// Verifies all records from the tail on. Torn records at the tail may have been overwritten by
/// records of the head that were then cut off: within the reach of the records under way, the tail
/// is moved past them.
fn checked_tail(log: &mut LogReader, tail: u32, head: u32, size: u32) -> Result<u32> {
    let reach = u64::from(RECORDS_UNDER_WAY).saturating_mul(u64::from(size));
    let reach = reach >> BLOCK_BITS;
    let mut tail = header_after(log, head, tail, 1)?.unwrap_or(tail);
    // Each round starts after the record at which the last one failed, so all rounds together read
    // the log once.
    while let Err(e) = verify(log, tail, head) {
        let (is_torn, error, torn) = (e.is_torn(), e.error, e.block);
        if is_torn && torn != 0 && distance(log, head, torn) <= reach {
            tail = match header_after(log, head, torn, 2)? {
                Some(next) if next != torn => next,
                _ => return Err(error),
            };
        } else {
            return Err(error);
        }
    }
    Ok(tail)
}

/// Returns the number of blocks from the head round the ring to a block near the tail.
fn distance(log: &LogReader, head: u32, block: u32) -> u64 {
    if head < block {
        return u64::from(block.saturating_sub(head));
    }
    u64::from(block).saturating_add(u64::from(log.blocks.saturating_sub(head)))
}

/// Checks the checksums of all records of a span.
fn verify(log: &LogReader, tail: u32, head: u32) -> std::result::Result<(), RecordError> {
    let mut records = Records::between(log, tail, head)?;
    while records.checked()?.is_some() {}
    Ok(())
}

/// Returns the header of the last record before `head`.
fn last_record(log: &mut LogReader, head: u32, tail: u32) -> Result<RecordHeader> {
    let missing =
        |log: &LogReader| -> Error { log.corrupt("missing record before its head", head) };
    let found = headers_before(log, head, tail, 1)?;
    let block = *found.last().ok_or_else(|| missing(log))?;
    Ok(RecordHeader::parse(&log.block(block)?, block))
}

/// Returns the blocks of at most `count` record headers before `head`, the nearest first. The
/// search ends at `tail`, and goes round the whole ring if both are the same.
fn headers_before(log: &mut LogReader, head: u32, tail: u32, count: u32) -> Result<Vec<u32>> {
    let first = if head > tail { tail } else { 0 };
    let around = if tail >= head { tail..log.blocks } else { 0..0 };
    let mut found = Vec::new();
    for block in (first..head).rev().chain(around.rev()) {
        if is_header(&log.block(block)?) {
            found.push(block);
            if found.len() >= crate::bytes::index(count) {
                break;
            }
        }
    }
    Ok(found)
}

/// Returns the `count`th record header from `tail` on, or the last one before `head`.
fn header_after(log: &mut LogReader, head: u32, tail: u32, count: u32) -> Result<Option<u32>> {
    let end = if head > tail { head } else { log.blocks };
    let around = if tail > head { 0..head } else { 0..0 };
    let mut found = None;
    let mut left = count;
    for block in (tail..end).chain(around) {
        if is_header(&log.block(block)?) {
            found = Some(block);
            left = left.saturating_sub(1);
            if left == 0 {
                break;
            }
        }
    }
    Ok(found)
}
