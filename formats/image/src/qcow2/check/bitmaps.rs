//! The counting of persistent bitmaps.

use diskfs_block::Result;

use crate::qcow2::bitmap_directory;
use crate::qcow2::check::counter::Counter;
use crate::qcow2::check::report::FindingKind;
use crate::qcow2::check::tables::for_each_word;
use crate::qcow2::units::HostOffset;

impl Counter<'_> {
    /// Counts the clusters of all bitmaps.
    pub(super) fn count_bitmaps(&mut self) -> Result<()> {
        let Some(directory) = self.header.extensions.bitmaps else {
            return Ok(());
        };
        if !self.header.autoclear.bitmaps() {
            return Ok(());
        }
        self.count(directory.at, directory.size_bytes);
        let entries = match bitmap_directory::read(self.file, self.header) {
            Ok(entries) => entries,
            Err(e) => {
                self.is_incomplete = true;
                let reason = e.reason().to_owned();
                self.add(FindingKind::Bitmap, directory.at, 1, || reason);
                return Ok(());
            }
        };
        for entry in entries {
            let size_bytes = u64::from(entry.table_entries).saturating_mul(8);
            self.count(entry.table_at, size_bytes);
            self.budget.take(entry.table_at, size_bytes)?;
            let file = self.file;
            for_each_word(file, entry.table_at, size_bytes, |words, index| {
                self.count_bitmap_entry(words.word(index), words.place_of(index));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn count_bitmap_entry(&mut self, entry: u64, at: HostOffset) {
        /// The bits of the offset in a bitmap table entry: 9 to 55.
        const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
        /// The flag of a cluster of ones that is not stored.
        const ALL_ONES: u64 = 1;
        let offset = entry & OFFSET_MASK;
        let is_valid = entry & !(OFFSET_MASK | ALL_ONES) == 0
            && (offset == 0 || entry & ALL_ONES == 0)
            && self.header.geometry.is_cluster_aligned(offset);
        if !is_valid {
            self.is_incomplete = true;
            self.add(FindingKind::Bitmap, at, 1, || {
                format!("invalid bitmap table entry {entry:#018x}")
            });
        } else if offset != 0 {
            self.count(HostOffset(offset), self.header.geometry.cluster_size());
        }
    }
}
