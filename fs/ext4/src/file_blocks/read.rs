//! Reads of a file's blocks: from each run straight to the caller's buffer.

use std::ops::Range;

use crate::bytes::{index, len_u64};
use crate::error::{InInode, Result};
use crate::inode::Inode;
use crate::run::Run;
use crate::volume::Volume;

use super::runs_until;

/// Fills `buf` with the file's bytes from `offset` on; holes give zeroes.
pub(crate) fn read(volume: &Volume, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<()> {
    let end = offset.saturating_add(len_u64(buf.len()));
    let within = |byte: u64| index(byte.saturating_sub(offset));
    let mut done = 0;
    if let Some(first) = volume.superblock.block_size.file_block_at(offset) {
        let until = volume.superblock.block_size.blocks_for(end);
        let runs = runs_until(volume, inode, first, until);
        announce(volume, runs.listed(), offset, end);
        for run in runs {
            let span = Span::of(volume, run?);
            if span.start >= end {
                break;
            }
            let start = span.start.max(offset);
            fill(buf, done..within(start));
            done = within(span.end.min(end));
            if span.written {
                let part = buf.get_mut(within(start)..done).unwrap_or_default();
                let from = span
                    .device_offset
                    .saturating_add(start.saturating_sub(span.start));
                volume.read_device(from, part).in_inode(inode.number)?;
            } else {
                fill(buf, within(start)..done);
            }
            if done == buf.len() {
                break;
            }
        }
    }
    let len = buf.len();
    fill(buf, done..len);
    Ok(())
}

/// Fills a part of the buffer with zeroes.
fn fill(buf: &mut [u8], part: Range<usize>) {
    buf.get_mut(part).unwrap_or_default().fill(0);
}

/// A run in bytes.
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device_offset: u64,
    pub(crate) written: bool,
}

impl Span {
    pub(crate) fn of(volume: &Volume, run: Run) -> Self {
        let size = volume.superblock.block_size;
        Self {
            start: size.file_byte_of(run.file_block),
            end: size.bytes_of(run.end()),
            device_offset: size.byte_of(run.fs_block),
            written: run.written,
        }
    }
}

/// Announces all runs of a read to the device before the first one is read, if there are several.
fn announce(volume: &Volume, runs: &[Run], offset: u64, end: u64) {
    let spans = || {
        runs.iter()
            .map(|run| Span::of(volume, *run))
            .take_while(|span| span.start < end)
            .take(ANNOUNCED_RUNS_MAX)
            .filter(|span| span.written)
    };
    if spans().nth(1).is_none() {
        return;
    }
    for span in spans() {
        let skipped = offset.saturating_sub(span.start);
        let start = span.start.max(offset);
        let len = span.end.min(end).saturating_sub(start);
        volume
            .device
            .will_need(span.device_offset.saturating_add(skipped), len);
    }
}

/// The number of runs that one announcement covers. Each run costs a system call of the device; a
/// reader that is not done with them after so many announces the next ones.
const ANNOUNCED_RUNS_MAX: usize = 64;

/// Announces that these bytes will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) {
    let end = offset.saturating_add(len_bytes).min(inode.size_bytes);
    let Some(first) = volume.superblock.block_size.file_block_at(offset) else {
        return;
    };
    let until = volume.superblock.block_size.blocks_for(end);
    for run in runs_until(volume, inode, first, until).take(ANNOUNCED_RUNS_MAX) {
        let Ok(run) = run else { return };
        let span = Span::of(volume, run);
        if span.start >= end {
            return;
        }
        let start = span.start.max(offset);
        let skipped = start.saturating_sub(span.start);
        let len = span.end.min(end).saturating_sub(start);
        if span.written {
            volume
                .device
                .will_need(span.device_offset.saturating_add(skipped), len);
        }
    }
}
