//! The contents of files: reads that go from each run straight to the caller's buffer, and the runs
//! themselves.

use std::sync::Arc;

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::bytes::index;
use crate::error::Result;
use crate::file_blocks::{self, Span, runs_until};
use crate::inline_data;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// Reads from byte `offset` up to the end of the file. Returns the number of bytes read.
pub(crate) fn read(volume: &Volume, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let left = index(inode.size_bytes.saturating_sub(offset));
    let len = left.min(buf.len());
    let wanted = buf.get_mut(..len).unwrap_or_default();
    if inode.has(InodeFlags::INLINE_DATA) {
        inline_data::read(inode, offset, wanted)?;
    } else {
        file_blocks::read(volume, inode, offset, wanted)?;
    }
    Ok(len)
}

/// Announces that these bytes will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) {
    if !inode.has(InodeFlags::INLINE_DATA) {
        file_blocks::will_need(volume, inode, offset, len_bytes);
    }
}

/// Returns the runs of a file from byte `offset` up to its end.
pub(crate) fn extents(volume: &Volume, inode: Arc<Inode>, offset: u64) -> Extents<'_> {
    Extents {
        volume,
        inode,
        at: offset,
    }
}

/// The distance up to which the end of a hole is searched in a file whose runs are not in a list. A
/// larger hole is reported in several pieces.
const HOLE_BLOCKS_MAX: u64 = 1 << 20;

/// The iterator of [`extents`].
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
    /// Returns the kind and the length of the start of a written range. Blocks that are read from
    /// the journal are `Inline`: they are not at their final place on the device yet.
    fn stored(&self, device_offset: u64, len_bytes: u64) -> (FileExtentKind, u64) {
        let is_on_device = match &self.volume.journal_view {
            Some(view) => view.is_on_device(device_offset, len_bytes),
            None => (true, len_bytes),
        };
        match is_on_device {
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
