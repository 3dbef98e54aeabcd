//! The check of the header and the block allocation table.

use std::fmt::Arguments;

use diskfs_block::{ClusterSet, ClusterUse, Result};

use crate::header::{DATA_OFFSET_AT, IN_USE_AT, SECTOR_BYTES, TABLE_AT};
use crate::parallels::Parallels;

impl Parallels {
    /// Checks the image, as `qemu-img check` does: it was closed, the data begin after the table,
    /// every entry refers to a cluster of the file, and no two to the same one. Calls `found` with
    /// the byte and the description of each error. Clusters after the last one in use are leaked.
    ///
    /// Memory holds one bit for each cluster of the file, 64 MiB at most.
    ///
    /// # Errors
    /// `Unsupported` for a file with too many clusters to count; the errors of reading.
    pub fn check(&self, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<ClusterUse> {
        // QEMU counts whole sectors.
        let file_sectors = self.file_bytes().div_ceil(SECTOR_BYTES);
        if self.header.is_in_use {
            found(IN_USE_AT, format_args!("the image was not closed properly"));
        }
        let (is_valid, data_start) = self.header.data_start(file_sectors);
        if !is_valid {
            let stated = self.header.data_offset_sectors;
            let reason = format_args!("the header has the invalid start of the data {stated:#x}");
            found(DATA_OFFSET_AT, reason);
        }
        let data = Data {
            start: data_start.saturating_mul(SECTOR_BYTES),
            file_end: file_sectors.saturating_mul(SECTOR_BYTES),
        };
        let end_bytes = self.check_places(data, found)?;
        self.check_twice_used(data, end_bytes, found)?;
        let leaked_bytes = data.file_end.saturating_sub(end_bytes);
        let mut report = self.count_use(end_bytes)?;
        report.leaked = leaked_bytes.div_ceil(self.cluster_size_bytes());
        Ok(report)
    }

    /// Reports clusters that are not within the data; returns the end of the last one that is.
    fn check_places(&self, data: Data, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<u64> {
        let mut data_end = data.start;
        for number in 0..self.header.entries {
            let Some(offset) = self.offset(number)? else {
                continue;
            };
            let end = offset.saturating_add(self.cluster_size_bytes());
            if offset < data.start || end > data.file_end {
                let reason = format_args!("cluster {number} at {offset:#x} is outside of the file");
                found(entry_at(number), reason);
            } else {
                data_end = data_end.max(end);
            }
        }
        Ok(data_end)
    }

    /// Reports clusters of the file to which several entries refer.
    fn check_twice_used(
        &self,
        data: Data,
        end_bytes: u64,
        found: &mut dyn FnMut(u64, Arguments<'_>),
    ) -> Result<()> {
        let cluster_bytes = self.cluster_size_bytes();
        let data_bytes = end_bytes.saturating_sub(data.start);
        let mut used = ClusterSet::new(data_bytes.div_ceil(cluster_bytes))?;
        for number in 0..self.header.entries {
            let Some(within) = self
                .offset(number)?
                .and_then(|offset| offset.checked_sub(data.start))
            else {
                continue;
            };
            let cluster = within.checked_div(cluster_bytes).unwrap_or(0);
            if !used.insert(cluster) {
                let reason = format_args!("cluster {number} has the place of another one");
                found(entry_at(number), reason);
            }
        }
        Ok(())
    }

    fn count_use(&self, end_bytes: u64) -> Result<ClusterUse> {
        let mut report = ClusterUse {
            total: self.header.entries,
            end_bytes,
            ..ClusterUse::default()
        };
        let mut expected = None;
        for number in 0..self.header.entries {
            let offset = self.offset(number)?;
            let end = offset.map(|at| at.saturating_add(self.cluster_size_bytes()));
            let Some(end) = end.filter(|end| *end <= end_bytes) else {
                expected = None;
                continue;
            };
            report.allocated = report.allocated.saturating_add(1);
            if expected.is_some() && expected != offset {
                report.fragmented = report.fragmented.saturating_add(1);
            }
            expected = Some(end);
        }
        Ok(report)
    }
}

/// The part of the file in which clusters are stored.
#[derive(Debug, Clone, Copy)]
struct Data {
    start: u64,
    file_end: u64,
}

/// Returns the offset of an entry of the table.
const fn entry_at(number: u64) -> u64 {
    TABLE_AT.saturating_add(number.saturating_mul(4))
}
