//! Iteration over the extents of a file, holes included.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::file_extent_item::{ExtentKind, FileExtentItem};
use crate::inode::Inode;
use crate::key::{Key, item};
use crate::volume::Volume;

/// An iterator over the extents of a file from a byte on, without gaps up to the end of the last
/// extent. It ends after the first error.
#[derive(Debug)]
pub(crate) struct ExtentItems<'a> {
    cursor: Cursor<'a>,
    key: Key,
    sector_bytes: u64,
    /// The start of the next extent.
    at: u64,
    is_done: bool,
}

impl<'a> ExtentItems<'a> {
    /// Returns the extents from the one with byte `offset` on. The first may start earlier.
    pub(crate) fn new(volume: &'a Volume, inode: &Inode, offset: u64) -> Result<Self> {
        let key = Key::new(inode.id.inode, item::EXTENT_DATA, offset);
        let mut cursor = volume.at_or_before(&inode.id.subvolume.tree, key)?;
        if cursor.item().is_none_or(|item| !item.key.is_beside(key)) {
            cursor.advance()?;
        }
        Ok(Self {
            cursor,
            key,
            sector_bytes: volume.sector_bytes(),
            at: offset,
            is_done: false,
        })
    }

    fn extent(&mut self) -> Result<Option<FileExtentItem>> {
        loop {
            let item = self
                .cursor
                .item()
                .filter(|item| item.key.is_beside(self.key));
            let Some(item) = item else {
                return Ok(None);
            };
            if item.key.offset > self.at {
                return Ok(Some(self.hole_until(item.key.offset)));
            }
            let extent = FileExtentItem::parse(item, self.sector_bytes)?;
            // Only the first extent may start before the wanted byte.
            if item.key.offset < self.at && self.at != self.key.offset {
                return Err(item.invalid("it overlaps the extent before it"));
            }
            self.cursor.advance()?;
            if extent.end() > self.at {
                self.at = extent.end();
                return Ok(Some(extent));
            }
        }
    }

    fn hole_until(&mut self, end: u64) -> FileExtentItem {
        let start = std::mem::replace(&mut self.at, end);
        FileExtentItem {
            start,
            len_bytes: end.saturating_sub(start),
            kind: ExtentKind::Hole,
        }
    }
}

impl Iterator for ExtentItems<'_> {
    type Item = Result<FileExtentItem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let extent = self.extent();
        self.is_done = !matches!(extent, Ok(Some(_)));
        extent.transpose()
    }
}
