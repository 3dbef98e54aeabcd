//! Searching the head of the log: the block after the last one that was written.
//!
//! Every block of the log begins with the cycle in which it was written, so the head is where the
//! cycle falls by one. Up to eight records may have been under way at a crash, and may have reached
//! the medium in any order; therefore the blocks before the head are searched for holes.

use crate::error::Result;

use super::log_reader::{BLOCK_BYTES, CYCLES_BYTES, LogReader, is_header};
use super::record_header::{RECORD_BYTES_MAX, RecordHeader};

/// The largest number of records that are written at the same time, `XLOG_MAX_ICLOGS`.
pub(super) const RECORDS_UNDER_WAY: u32 = 8;

/// Returns the head: a block of the log, or `None` if the log has never been written.
///
/// # Errors
/// `Corrupt` if there is no valid record before the head, `Io`.
pub(super) fn find(log: &mut LogReader) -> Result<Option<u32>> {
    if let Some(end) = end_of_first_cycle(log)? {
        return Ok(Some(end).filter(|end| *end > 0));
    }
    let head = cycle_border(log)?;
    let head = without_partial_record(log, head)?;
    Ok(Some(if head == log.blocks { 0 } else { head }))
}

/// Returns the end of the written part of a log that has not been written to its end yet; `None`
/// if the log was written completely.
fn end_of_first_cycle(log: &mut LogReader) -> Result<Option<u32>> {
    if log.cycle(0)? == 0 {
        return Ok(Some(0));
    }
    let last = log.blocks.saturating_sub(1);
    if log.cycle(last)? != 0 {
        return Ok(None);
    }
    let mut end = cycle_start(log, 0, last, 0)?;
    let start = end.saturating_sub(scan_blocks(log));
    if let Some(found) = first_of_cycle(log, start, end, 0)? {
        end = found;
    }
    match record_before(log, start, end, 0)? {
        Some(end) => Ok(Some(end)),
        None => Err(log.corrupt("missing record before its end", end)),
    }
}

/// Returns the block at which the cycle falls by one, before all holes.
fn cycle_border(log: &mut LogReader) -> Result<u32> {
    let last = log.blocks.saturating_sub(1);
    let first_cycle = log.cycle(0)?;
    let last_cycle = log.cycle(last)?;
    let (head, stop_cycle) = if first_cycle == last_cycle {
        // The head is at the physical end, or within the last records, before a hole.
        (log.blocks, last_cycle.wrapping_sub(1))
    } else {
        (cycle_start(log, 0, last, last_cycle)?, last_cycle)
    };
    let scan = scan_blocks(log).min(log.blocks);
    if let Some(start) = head.checked_sub(scan) {
        return Ok(first_of_cycle(log, start, head, stop_cycle)?.unwrap_or(head));
    }
    let end = log.blocks;
    let start = end.saturating_sub(scan.saturating_sub(head));
    if let Some(found) = first_of_cycle(log, start, end, stop_cycle.wrapping_sub(1))? {
        return Ok(found);
    }
    Ok(first_of_cycle(log, 0, head, stop_cycle)?.unwrap_or(head))
}

/// Moves the head to the start of the last record, if this record is longer than what is left.
fn without_partial_record(log: &mut LogReader, head: u32) -> Result<u32> {
    let scan = record_blocks(log).min(log.blocks);
    let missing = |log: &LogReader| log.corrupt("missing record before its head", head);
    if let Some(start) = head.checked_sub(scan) {
        return record_before(log, start, head, 0)?.ok_or_else(|| missing(log));
    }
    if let Some(found) = record_before(log, 0, head, 0)? {
        return Ok(found);
    }
    let end = log.blocks;
    let start = end.saturating_sub(scan.saturating_sub(head));
    let found = record_before(log, start, end, head)?.ok_or_else(|| missing(log))?;
    Ok(if found == end { head } else { found })
}

/// Searches backwards from `end` for a record header. Returns `end` if the record ends there, after
/// `more_blocks` from the start of the ring on; otherwise the place of the header. Returns `None`
/// if the start of the ring is reached.
fn record_before(
    log: &mut LogReader,
    start: u32,
    end: u32,
    more_blocks: u32,
) -> Result<Option<u32>> {
    for block in (0..end).rev() {
        if block < start {
            return Err(log.corrupt("a record has no header", block));
        }
        let bytes = log.block(block)?;
        if !is_header(&bytes) {
            continue;
        }
        let header = RecordHeader::parse(&bytes, block);
        check_uuid(log, &header)?;
        let found = end.saturating_sub(block).saturating_add(more_blocks);
        let record = header
            .payload_blocks()
            .saturating_add(header.header_blocks(log));
        return Ok(Some(if found == record { end } else { block }));
    }
    Ok(None)
}

/// Checks that a record belongs to this filesystem. IRIX wrote no UUID.
///
/// # Errors
/// `Corrupt`.
pub(super) fn check_uuid(log: &LogReader, header: &RecordHeader) -> Result<()> {
    if header.uuid == log.uuid || header.uuid == [0; 16] {
        return Ok(());
    }
    Err(log.corrupt("a record belongs to another filesystem", header.block))
}

/// Returns the first block of a cycle, by bisection between a block of another cycle and one of
/// this cycle.
fn cycle_start(log: &mut LogReader, first: u32, last: u32, cycle: u32) -> Result<u32> {
    let (mut first, mut last) = (first, last);
    loop {
        let middle = first.midpoint(last);
        if middle == first || middle == last {
            return Ok(last);
        }
        if log.cycle(middle)? == cycle {
            last = middle;
        } else {
            first = middle;
        }
    }
}

/// Returns the first block of a cycle in a range.
fn first_of_cycle(log: &mut LogReader, start: u32, end: u32, cycle: u32) -> Result<Option<u32>> {
    for block in start..end {
        if log.cycle(block)? == cycle {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

/// Returns the number of blocks of the largest record.
fn record_blocks(log: &LogReader) -> u32 {
    let bytes = if log.is_version_2 {
        RECORD_BYTES_MAX
    } else {
        CYCLES_BYTES
    };
    bytes.wrapping_div(BLOCK_BYTES)
}

/// Returns the number of blocks that may be under way at a crash.
fn scan_blocks(log: &LogReader) -> u32 {
    record_blocks(log).saturating_mul(RECORDS_UNDER_WAY)
}
