//! The parts of a read: one for each extent.

use crate::bytes::{index, len_u64};
use crate::data::Verify;
use crate::error::Result;
use crate::file_extent_item::{CompressedExtent, ExtentKind, FileExtentItem};
use crate::file_extents::ExtentItems;
use crate::inode::Inode;
use crate::volume::Volume;

/// A part of an extent, which is read into a part of the caller's buffer.
#[derive(Debug)]
pub(super) struct Part<'b> {
    pub(super) extent: FileExtentItem,
    /// The start of the part within the extent.
    pub(super) within: u64,
    pub(super) verify: Verify,
    /// True if the part goes up to the end of the extent or of the file.
    pub(super) is_last: bool,
    pub(super) buf: &'b mut [u8],
}

impl Part<'_> {
    /// Returns the number of bytes to be decompressed.
    pub(super) fn slow_bytes(&self) -> usize {
        self.compressed().map_or(0, |_| self.buf.len())
    }

    /// Returns the compressed extent that the part is of.
    pub(super) fn compressed(&self) -> Option<&CompressedExtent> {
        match &self.extent.kind {
            ExtentKind::Compressed { extent, .. } => Some(extent),
            ExtentKind::Hole | ExtentKind::Inline { .. } | ExtentKind::Plain { .. } => None,
        }
    }
}

/// An iterator over the parts of a read, which ends at the end of the buffer, or after the first
/// error.
#[derive(Debug)]
pub(super) struct Parts<'a, 'b> {
    extents: ExtentItems<'a>,
    verify: Verify,
    size_bytes: u64,
    /// The byte of the file that the rest of the buffer starts with.
    at: u64,
    rest: &'b mut [u8],
}

impl<'a, 'b> Parts<'a, 'b> {
    /// Returns the parts of a read into `buf` from byte `offset` on.
    pub(super) fn new(
        volume: &'a Volume,
        inode: &Inode,
        offset: u64,
        buf: &'b mut [u8],
    ) -> Result<Self> {
        let verify = if inode.item.flags.has_no_data_checksums() {
            Verify::No
        } else {
            Verify::Yes
        };
        Ok(Self {
            extents: ExtentItems::new(volume, inode, offset)?,
            verify,
            size_bytes: inode.item.size_bytes,
            at: offset,
            rest: buf,
        })
    }

    /// Returns the next extent; a hole after the last one.
    fn extent(&mut self) -> Result<FileExtentItem> {
        let hole = FileExtentItem {
            start: self.at,
            len_bytes: len_u64(self.rest.len()),
            kind: ExtentKind::Hole,
        };
        self.extents.next().unwrap_or(Ok(hole))
    }
}

impl<'b> Iterator for Parts<'_, 'b> {
    type Item = Result<Part<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.extent();
        // An error leaves nothing to be read.
        let rest = std::mem::take(&mut self.rest);
        let extent = match found {
            Ok(extent) => extent,
            Err(error) => return Some(Err(error)),
        };
        let start = self.at;
        let len = index(extent.end().saturating_sub(start)).min(rest.len());
        let (buf, rest) = rest.split_at_mut(len);
        self.rest = rest;
        self.at = start.saturating_add(len_u64(len));
        Some(Ok(Part {
            within: start.saturating_sub(extent.start),
            verify: self.verify,
            is_last: self.at >= extent.end().min(self.size_bytes),
            extent,
            buf,
        }))
    }
}
