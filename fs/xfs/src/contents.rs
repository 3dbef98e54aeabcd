//! The contents of files, and their extents.

use std::sync::Arc;

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::bmap::{self, Span, extents_from};
use crate::bytes::index;
use crate::error::Result;
use crate::inode::{ForkKind, Inode};
use crate::volume::Volume;

/// Reads from byte `offset` up to the end of the file. Returns the number of bytes read.
pub(crate) fn read(volume: &Volume, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let left = index(inode.size_bytes.saturating_sub(offset));
    let len = left.min(buf.len());
    let wanted = buf.get_mut(..len).unwrap_or_default();
    if !wanted.is_empty() {
        bmap::read(volume, inode, ForkKind::Data, offset, wanted)?;
    }
    Ok(len)
}

/// Announces that these bytes will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) {
    let end = offset.saturating_add(len_bytes).min(inode.size_bytes);
    bmap::will_need(volume, inode, offset..end);
}

/// The extents of a file from a byte on, up to the file's end.
#[derive(Debug)]
pub(crate) struct FileExtents<'a> {
    volume: &'a Volume,
    inode: Arc<Inode>,
    at: u64,
    /// Extents that were looked up already, in reverse order.
    ahead: Vec<Span>,
}

/// The number of extents that are looked up at once.
const AHEAD: usize = 64;

impl<'a> FileExtents<'a> {
    pub(crate) fn new(volume: &'a Volume, inode: Arc<Inode>, offset: u64) -> Self {
        Self {
            volume,
            inode,
            at: offset,
            ahead: Vec::new(),
        }
    }

    /// Returns the extent that contains or follows the position.
    fn span(&mut self) -> Result<Option<Span>> {
        while self.ahead.last().is_some_and(|span| span.end <= self.at) {
            self.ahead.pop();
        }
        if self.ahead.is_empty() {
            let first = self.at.wrapping_shr(self.volume.superblock.block_bits);
            let extents = extents_from(self.volume, &self.inode, ForkKind::Data, first);
            for extent in extents.take(AHEAD) {
                self.ahead.push(Span::of(self.volume, &extent?));
            }
            self.ahead.reverse();
        }
        Ok(self.ahead.last().copied())
    }

    /// Returns the kind of the extent at the position, and its end.
    fn kind(&mut self) -> Result<(FileExtentKind, u64)> {
        let at = self.at;
        Ok(match self.span()? {
            None => (FileExtentKind::Hole, self.inode.size_bytes),
            Some(span) if span.start > at => (FileExtentKind::Hole, span.start),
            Some(span) if !span.written => (FileExtentKind::Hole, span.end),
            Some(span) => {
                let skipped = at.saturating_sub(span.start);
                let device_offset = span.device_offset.saturating_add(skipped);
                (FileExtentKind::Stored { device_offset }, span.end)
            }
        })
    }
}

impl Iterator for FileExtents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        let (offset, size) = (self.at, self.inode.size_bytes);
        if offset >= size {
            return None;
        }
        let found = self.kind();
        self.at = found.as_ref().map_or(size, |(_, end)| *end);
        Some(found.map(|(kind, end)| FileExtent {
            offset,
            len_bytes: end.min(size).saturating_sub(offset),
            kind,
        }))
    }
}
