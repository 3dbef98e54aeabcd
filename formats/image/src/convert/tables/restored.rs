//! The tables of an image whose writing is continued.

use diskfs_block::{BlockRead, Error, Result};

use super::{PresentL2, Tables};
use crate::numbers::{to_u64, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{L2Rules, RawKind, RawL2Entry};
use crate::qcow2::units::HostOffset;

/// The number of bytes of an L1 entry.
const ENTRY_BYTES: u64 = 8;

impl Tables {
    /// Takes the tables, which are new, from an image: as [`store`](Self::store) has written them
    /// after the first `done_bytes` of the disk, when the image ended at `end`. What was added later
    /// is ignored.
    ///
    /// # Errors
    /// `Corrupt` if a table refers to a place beyond the end.
    pub(in crate::convert) fn restore(
        &mut self,
        file: &dyn BlockRead,
        done_bytes: u64,
        end: u64,
    ) -> Result<()> {
        if end < self.end || end > file.size_bytes() {
            let reason = format!("the unfinished image is shorter than {end} bytes");
            return Err(Error::corrupt(reason));
        }
        let l1_at = self.l1_table().at;
        let coverage = self.rules.geometry.l1_coverage();
        let tables = done_bytes.div_ceil(coverage).min(to_u64(self.l1.len()));
        let l1 = TableSlice::read(file, l1_at, tables.saturating_mul(ENTRY_BYTES))?;
        for index in 0..tables {
            let is_complete = index.saturating_add(1).saturating_mul(coverage) <= done_bytes;
            let entry = l1.word(to_usize(index));
            let place = l1.place_of(to_usize(index));
            let Some(at) = l1_entry::l2_table(entry, self.rules.geometry, place)? else {
                continue;
            };
            // The table may have got its place later.
            if at.0 >= end && !is_complete {
                continue;
            }
            self.restore_l2((index, at), file, done_bytes, end)?;
        }
        self.end = end;
        Ok(())
    }

    /// Reads an L2 table, as far as it covers what is done.
    fn restore_l2(
        &mut self,
        (index, at): (u64, HostOffset),
        file: &dyn BlockRead,
        done_bytes: u64,
        end: u64,
    ) -> Result<()> {
        let cluster_size = self.cluster_size();
        self.restore_count(at.0, cluster_size, end)?;
        let table = TableSlice::read(file, at, cluster_size)?;
        let words = self.rules.geometry.layout().words();
        let mut guest = index.saturating_mul(self.rules.geometry.l1_coverage());
        for word in (0..table.len()).step_by(words) {
            if guest >= done_bytes {
                for added_later in word..word.saturating_add(words) {
                    table.set_word(added_later, 0);
                }
            } else if let Some((first, len)) = stored(table.word(word), self.rules) {
                self.restore_count(first, len, end)?;
            }
            guest = guest.saturating_add(cluster_size);
        }
        if let Some(entry) = self.l1.get_mut(to_usize(index)) {
            *entry = l1_entry::entry_for(at);
        }
        self.l2 = Some(PresentL2 {
            index,
            table,
            at: Some(at.0),
        });
        Ok(())
    }

    /// Counts a range that a table refers to.
    fn restore_count(&mut self, at: u64, len_bytes: u64, end: u64) -> Result<()> {
        // A compressed cluster is read to the end of a sector.
        let end = end.next_multiple_of(self.cluster_size());
        let Some(range_end) = at.checked_add(len_bytes).filter(|it| *it <= end) else {
            let reason = format!("the unfinished image refers to {at:#x}, beyond its end");
            return Err(Error::corrupt(reason));
        };
        self.count(at, range_end.saturating_sub(1));
        Ok(())
    }
}

/// Returns the place and the length of what an L2 entry refers to.
fn stored(descriptor: u64, rules: L2Rules) -> Option<(u64, u64)> {
    let entry = RawL2Entry {
        descriptor,
        bitmap: 0,
    };
    match entry.kind(rules) {
        RawKind::Compressed => {
            let cluster = entry.compressed(rules);
            Some((cluster.host.0, cluster.len_bytes))
        }
        RawKind::Data | RawKind::ZeroAllocated => {
            Some((entry.offset(), rules.geometry.cluster_size()))
        }
        RawKind::Unallocated | RawKind::Zero => None,
    }
}
