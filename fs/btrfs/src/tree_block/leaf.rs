//! The items of a leaf (`struct btrfs_item`).

use std::ops::Range;

use super::{HEADER_BYTES, TreeBlock};
use crate::bytes::{index, le32};
use crate::error::Result;
use crate::key::KEY_BYTES;

/// The length of an item's head: its key, and offset and size of its data.
pub(super) const ITEM_BYTES: usize = 25;

impl TreeBlock {
    /// Checks the keys of all items, and the places of their data: as on Linux, the data of an item
    /// ends where that of the previous one begins, and the first ends at the end of the block.
    pub(super) fn check_items(&self) -> Result<()> {
        let heads_end = self
            .len()
            .saturating_mul(ITEM_BYTES)
            .saturating_add(HEADER_BYTES);
        let mut end = self.len_bytes();
        let mut previous = None;
        for nth in 0..self.len() {
            let (Some(key), Some(place)) = (self.key(nth), self.item_place(nth)) else {
                return Err(self.invalid("an item is outside of it"));
            };
            self.check_order(previous, key)?;
            if place.end != end || place.start < heads_end {
                return Err(self.invalid(&format!("the data of item {nth} is at the wrong place")));
            }
            end = place.start;
            previous = Some(key);
        }
        Ok(())
    }

    /// Returns the place of an item's data within the block.
    #[inline]
    pub(crate) fn item_place(&self, nth: usize) -> Option<Range<usize>> {
        if nth >= self.len() || !self.is_leaf() {
            return None;
        }
        let head = nth.checked_mul(ITEM_BYTES)?.checked_add(HEADER_BYTES)?;
        let offset = le32(&self.bytes, head.checked_add(KEY_BYTES)?)?;
        let size = le32(&self.bytes, head.checked_add(KEY_BYTES.saturating_add(4))?)?;
        let start = index(offset).checked_add(HEADER_BYTES)?;
        Some(start..start.checked_add(index(size))?)
    }

    /// Returns bytes of the block; none if they are not within it.
    #[inline]
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or_default()
    }
}
