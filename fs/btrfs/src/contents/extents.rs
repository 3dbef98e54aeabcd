//! The extents of a file as callers see them.

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::error::Result;
use crate::file_extent_item::ExtentKind;
use crate::file_extents::ExtentItems;
use crate::inode::Inode;
use crate::volume::Volume;

/// An iterator over the extents of a file up to its end. Extents are `Stored` if the filesystem has
/// one device, which all offsets refer to then; otherwise they are `Inline`, as are compressed ones.
#[derive(Debug)]
pub(crate) struct Extents<'a> {
    volume: &'a Volume,
    items: ExtentItems<'a>,
    /// The rest of an item of which a part was returned.
    rest: Option<(ExtentKind, u64, u64)>,
    at: u64,
    size_bytes: u64,
}

impl<'a> Extents<'a> {
    /// Returns the extents of a file from byte `offset` on.
    pub(crate) fn new(volume: &'a Volume, inode: &Inode, offset: u64) -> Result<Self> {
        Ok(Self {
            volume,
            items: ExtentItems::new(volume, inode, offset)?,
            rest: None,
            at: offset,
            size_bytes: inode.item.size_bytes,
        })
    }

    /// Returns the kind of the extent at the position, and its end.
    fn extent(&mut self) -> Result<(FileExtentKind, u64)> {
        let (kind, start, end) = match self.rest.take() {
            Some(rest) => rest,
            None => match self.items.next().transpose()? {
                Some(item) => {
                    let end = item.end();
                    (item.kind, item.start, end)
                }
                None => return Ok((FileExtentKind::Hole, self.size_bytes)),
            },
        };
        let kind = match &kind {
            ExtentKind::Hole => FileExtentKind::Hole,
            ExtentKind::Inline { .. } | ExtentKind::Compressed { .. } => FileExtentKind::Inline,
            ExtentKind::Plain { logical } => {
                let within = self.at.saturating_sub(start);
                let (stored, len_bytes) = self.stored(logical.plus(within))?;
                let stop = self.at.saturating_add(len_bytes);
                if stop < end {
                    self.rest = Some((kind, start, end));
                    return Ok((stored, stop));
                }
                stored
            }
        };
        Ok((kind, end))
    }

    fn stored(&self, logical: crate::logical::Logical) -> Result<(FileExtentKind, u64)> {
        let storage = &self.volume.blocks.storage;
        if storage.devices.superblock.num_devices != 1 {
            return Ok((FileExtentKind::Inline, u64::MAX));
        }
        Ok(match storage.place(logical)? {
            (Some(place), len_bytes) => {
                let device_offset = place.offset;
                (FileExtentKind::Stored { device_offset }, len_bytes)
            }
            (None, len_bytes) => (FileExtentKind::Inline, len_bytes),
        })
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.at;
        if offset >= self.size_bytes {
            return None;
        }
        let found = self.extent();
        let end = found.as_ref().map_or(self.size_bytes, |(_, end)| *end);
        self.at = end.min(self.size_bytes);
        Some(found.map(|(kind, _)| FileExtent {
            offset,
            len_bytes: self.at.saturating_sub(offset),
            kind,
        }))
    }
}
