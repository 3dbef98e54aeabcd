//! What is in a file: reads that go from each run straight to the caller's bytes, and the runs
//! themselves.

use std::ops::Range;
use std::sync::Arc;

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::bytes::{index, len_u64};
use crate::error::{InInode, Result};
use crate::file_blocks::{Run, runs_until};
use crate::inline_data;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// Reads from byte `offset` on, up to the end of the file. Returns how much.
pub(crate) fn read(volume: &Volume, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let left = index(inode.size_bytes.saturating_sub(offset));
    let len = left.min(buf.len());
    let wanted = buf.get_mut(..len).unwrap_or_default();
    if inode.has(InodeFlags::INLINE_DATA) {
        inline_data::read(inode, offset, wanted)?;
    } else {
        read_blocks(volume, inode, offset, wanted)?;
    }
    Ok(len)
}

/// Fills `buf` with what the file's blocks have at `offset`; zeroes for holes.
pub(crate) fn read_blocks(
    volume: &Volume,
    inode: &Inode,
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
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

/// Zeroes a part of the bytes.
fn fill(buf: &mut [u8], part: Range<usize>) {
    buf.get_mut(part).unwrap_or_default().fill(0);
}

/// A run in bytes.
struct Span {
    start: u64,
    end: u64,
    device_offset: u64,
    written: bool,
}

impl Span {
    fn of(volume: &Volume, run: Run) -> Self {
        let size = volume.superblock.block_size;
        Self {
            start: size.file_byte_of(run.file_block),
            end: size.bytes_of(run.end()),
            device_offset: size.byte_of(run.fs_block),
            written: run.written,
        }
    }
}

/// Tells the device of all runs of a read before the first one is read, if there are several.
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

/// How many runs one announcement covers: each costs a system call below, and a reader that is still
/// behind them after so many announces again.
const ANNOUNCED_RUNS_MAX: usize = 64;

/// Says that these bytes will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) {
    if inode.has(InodeFlags::INLINE_DATA) {
        return;
    }
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

/// The runs of a file from byte `offset` on, up to its end.
pub(crate) fn extents(volume: &Volume, inode: Arc<Inode>, offset: u64) -> Extents<'_> {
    Extents {
        volume,
        inode,
        at: offset,
    }
}

/// How far a search for the end of a hole goes, in a file whose runs are not in a list: the hole is
/// told in pieces then.
const HOLE_BLOCKS_MAX: u64 = 1 << 20;

/// Iterator of [`extents`].
#[derive(Debug)]
pub(crate) struct Extents<'a> {
    volume: &'a Volume,
    inode: Arc<Inode>,
    at: u64,
}

impl Extents<'_> {
    fn kind_at(&self) -> Result<(FileExtentKind, u64)> {
        let end = self.inode.size_bytes;
        if self.inode.has(InodeFlags::INLINE_DATA) {
            return Ok((FileExtentKind::Inline, end));
        }
        let size = self.volume.superblock.block_size;
        let Some(block) = size.file_block_at(self.at) else {
            return Ok((FileExtentKind::Hole, end));
        };
        let until = u64::from(block.0).saturating_add(HOLE_BLOCKS_MAX);
        let mut runs = runs_until(self.volume, &self.inode, block, until);
        let Some(run) = runs.next().transpose()? else {
            return Ok((FileExtentKind::Hole, size.bytes_of(runs.complete_until())));
        };
        let span = Span::of(self.volume, run);
        Ok(if span.start > self.at {
            (FileExtentKind::Hole, span.start)
        } else if span.written {
            let within = self.at.saturating_sub(span.start);
            let device_offset = span.device_offset.saturating_add(within);
            let (kind, len_bytes) = self.stored(device_offset, span.end.saturating_sub(self.at));
            (kind, self.at.saturating_add(len_bytes))
        } else {
            (FileExtentKind::Hole, span.end)
        })
    }
}

impl Extents<'_> {
    /// What a written run begins with: what is read out of the journal is not at its place yet.
    fn stored(&self, device_offset: u64, len_bytes: u64) -> (FileExtentKind, u64) {
        let at_home = match &self.volume.journal_view {
            Some(view) => view.at_home(device_offset, len_bytes),
            None => (true, len_bytes),
        };
        match at_home {
            (true, len_bytes) => (FileExtentKind::Stored { device_offset }, len_bytes),
            (false, len_bytes) => (FileExtentKind::Inline, len_bytes),
        }
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        let size_bytes = self.inode.size_bytes;
        let offset = self.at;
        if offset >= size_bytes {
            return None;
        }
        let found = self.kind_at();
        self.at = found.as_ref().map_or(size_bytes, |(_, end)| *end);
        Some(found.map(|(kind, end)| FileExtent {
            offset,
            len_bytes: end.min(size_bytes).saturating_sub(offset),
            kind,
        }))
    }
}
