//! Checksums of the data that was synced.

use std::ops::Range;

use super::records::Records;
use super::{Replay, successor};
use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::key::{Key, item};

/// The object ID of all checksums (`BTRFS_EXTENT_CSUM_OBJECTID`).
const CHECKSUMS: u64 = 0_u64.wrapping_sub(10);

impl Replay<'_> {
    /// Adds the checksums of this log to those of the filesystem, of which they replace some.
    pub(super) fn add_checksums(&self, all: &mut Records) -> Result<()> {
        let mut next = Some(checksums_key(0));
        while let Some(first) = next {
            let Some((key, bytes)) = self.log.next(first)? else {
                break;
            };
            next = successor(key);
            let range = all.range_of_checksums(key, &bytes)?;
            all.remove_checksums(&range)?;
            all.set(key, bytes)?;
        }
        Ok(())
    }
}

impl Records<'_> {
    /// Returns the addresses that an item has checksums of.
    fn range_of_checksums(&self, key: Key, bytes: &[u8]) -> Result<Range<u64>> {
        let sectors = len_u64(bytes.len()).checked_div(self.checksum_bytes());
        let len = sectors.and_then(|sectors| sectors.checked_mul(self.sector_bytes()));
        let end = len.and_then(|len| key.offset.checked_add(len));
        Ok(key.offset..end.ok_or_else(|| self.invalid(key))?)
    }

    /// Removes the checksums of these addresses. Items that reach out of the range are cut.
    fn remove_checksums(&mut self, range: &Range<u64>) -> Result<()> {
        let start = checksums_key(range.start);
        let mut found = match self.last_up_to(start)? {
            Some(found) => Some(found),
            None => self.next(start)?,
        };
        while let Some((key, bytes)) = found.filter(|(key, _)| key.offset < range.end) {
            let existing = self.range_of_checksums(key, &bytes)?;
            if existing.end > range.start {
                self.cut_checksums(key, &bytes, range, &existing)?;
            }
            let next = checksums_key(key.offset.saturating_add(1).max(range.start));
            found = self.next(next)?;
        }
        Ok(())
    }

    fn cut_checksums(
        &mut self,
        key: Key,
        bytes: &[u8],
        range: &Range<u64>,
        existing: &Range<u64>,
    ) -> Result<()> {
        let at = |address: u64| {
            let sectors = address
                .saturating_sub(existing.start)
                .checked_div(self.sector_bytes());
            index(sectors.unwrap_or(0).saturating_mul(self.checksum_bytes()))
        };
        let first = bytes.get(..at(range.start)).unwrap_or_default().to_vec();
        let last = bytes.get(at(range.end)..).unwrap_or_default().to_vec();
        self.set_or_remove(key, first)?;
        if last.is_empty() {
            return Ok(());
        }
        self.set(checksums_key(range.end), last)
    }
}

fn checksums_key(address: u64) -> Key {
    Key::new(CHECKSUMS, item::EXTENT_CSUM, address)
}
