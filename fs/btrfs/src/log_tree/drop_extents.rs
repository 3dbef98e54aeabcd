//! Removing the extents of a part of a file, as Linux's `btrfs_drop_extents`.

use std::ops::Range;

use super::extents::{Extent, PlacedExtent};
use super::{Replay, successor};
use crate::error::{Result, unsupported};
use crate::key::{Key, item};

impl Replay<'_> {
    /// Removes the extents of a range of a file, and cuts those that reach out of it. Returns the
    /// number of allocated bytes that were removed.
    pub(super) fn drop_extents(&mut self, inode: u64, range: Range<u64>) -> Result<u64> {
        let mut dropped = 0_u64;
        let start = Key::new(inode, item::EXTENT_DATA, range.start);
        let mut found = match self.subvolume.last_up_to(start)? {
            Some(found) => Some(found),
            None => self.subvolume.next(start)?,
        };
        while let Some((key, bytes)) = found.filter(|(key, _)| key.offset < range.end) {
            let extent = Extent::parse(&bytes).ok_or_else(|| self.subvolume.invalid(key))?;
            dropped = dropped.saturating_add(self.drop_extent(key, &extent, &range)?);
            found = match successor(key) {
                Some(next) => self.subvolume.next(next.max(first_after(key, &range)))?,
                None => None,
            };
        }
        Ok(dropped)
    }

    /// Removes the part of an extent that is in the range. Returns the number of its allocated
    /// bytes.
    fn drop_extent(&mut self, key: Key, extent: &Extent, range: &Range<u64>) -> Result<u64> {
        let end = key.offset.checked_add(extent.len_bytes());
        let end = end.ok_or_else(|| self.subvolume.invalid(key))?;
        let is_empty = end == key.offset && end >= range.start;
        if end <= range.start && !is_empty {
            return Ok(0);
        }
        let (keeps_start, keeps_end) = (key.offset < range.start, range.end < end);
        match extent {
            Extent::Inline { .. } if keeps_start || keeps_end => Err(unsupported(
                "log tree of btrfs that cuts an inline extent in two",
            )),
            Extent::Inline { .. } => {
                self.subvolume.remove(key)?;
                Ok(extent.len_bytes())
            }
            Extent::OnDevices(placed) => self.cut(key, placed, range, end),
        }
    }

    /// Removes the part of an extent that is in the range, which overlaps with it.
    fn cut(
        &mut self,
        key: Key,
        extent: &PlacedExtent,
        range: &Range<u64>,
        end: u64,
    ) -> Result<u64> {
        if range.end < end {
            let rest = extent.without_first(range.end.saturating_sub(key.offset));
            let rest_key = Key::new(key.object_id, key.item_type, range.end);
            self.subvolume.set(rest_key, rest.into_bytes())?;
        }
        if key.offset < range.start {
            let first = extent.with_len(range.start.saturating_sub(key.offset));
            self.subvolume.set(key, first.into_bytes())?;
        } else {
            self.subvolume.remove(key)?;
        }
        let removed = end
            .min(range.end)
            .saturating_sub(key.offset.max(range.start));
        Ok(if extent.is_hole() { 0 } else { removed })
    }
}

/// Returns the key from which the next extent to look at comes: an extent that begins before the
/// range is followed by those in it.
fn first_after(key: Key, range: &Range<u64>) -> Key {
    let offset = key.offset.saturating_add(1).max(range.start);
    Key::new(key.object_id, key.item_type, offset)
}
