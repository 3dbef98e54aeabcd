//! The check of the tables.

use std::fmt::Arguments;

use diskfs_block::{ClusterSet, ClusterUse, Result};

use crate::qed::{Qed, UNALLOCATED, ZERO};

/// The size of a sector, to which QEMU rounds the length of a file.
const SECTOR_BYTES: u64 = 512;

/// A check with its results so far.
struct Check<'a> {
    qed: &'a Qed,
    used: ClusterSet,
    report: ClusterUse,
    /// The number of clusters of a table.
    table_clusters: u64,
    found: &'a mut dyn FnMut(u64, Arguments<'_>),
}

impl Qed {
    /// Checks the tables, as `qemu-img check` does: every entry refers to a cluster of the file, no
    /// two to the same one. Calls `found` with the byte and the description of each error.
    ///
    /// Memory holds one bit for each cluster of the file, 64 MiB at most.
    ///
    /// # Errors
    /// `Unsupported` for a file with too many clusters to count; the errors of reading.
    pub fn check(&self, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<ClusterUse> {
        let cluster_bytes = self.cluster_size_bytes();
        let sectors_end = self.file_bytes().div_ceil(SECTOR_BYTES);
        let file_bytes = sectors_end.saturating_mul(SECTOR_BYTES);
        let clusters = file_bytes.checked_div(cluster_bytes).unwrap_or(0);
        let table_bytes = self.header.entries.saturating_mul(8);
        let check = Check {
            qed: self,
            used: ClusterSet::new(clusters)?,
            report: ClusterUse {
                total: self.header.size_bytes.div_ceil(cluster_bytes),
                ..ClusterUse::default()
            },
            table_clusters: table_bytes.checked_div(cluster_bytes).unwrap_or(0),
            found,
        };
        check.run()
    }
}

impl Check<'_> {
    fn run(mut self) -> Result<ClusterUse> {
        let l1_at = self.qed.header.l1_at;
        self.use_clusters(l1_at, self.table_clusters, l1_at);
        for index in 0..self.qed.header.entries {
            let at = place(l1_at, index);
            let table = self.qed.entry(l1_at, index)?;
            if table == UNALLOCATED {
                continue;
            }
            if !self.is_within(table, self.table_clusters) {
                let reason = format_args!("L1 entry {index} has the invalid offset {table:#x}");
                (self.found)(at, reason);
            } else if self.use_clusters(table, self.table_clusters, at) {
                self.check_l2(table)?;
            }
        }
        let header_clusters = self.header_clusters().min(self.used.clusters());
        let in_use = self.used.count().saturating_add(header_clusters);
        self.report.leaked = self.used.clusters().saturating_sub(in_use);
        Ok(self.report)
    }

    fn check_l2(&mut self, table: u64) -> Result<()> {
        let mut expected = None;
        for index in 0..self.qed.header.entries {
            let at = place(table, index);
            let offset = self.qed.entry(table, index)?;
            if offset == UNALLOCATED || offset == ZERO {
                continue;
            }
            self.report.allocated = self.report.allocated.saturating_add(1);
            if expected.is_some_and(|expected| expected != offset) {
                self.report.fragmented = self.report.fragmented.saturating_add(1);
            }
            expected = Some(offset.saturating_add(self.qed.cluster_size_bytes()));
            if self.is_within(offset, 1) {
                self.use_clusters(offset, 1, at);
            } else {
                let reason = format_args!("L2 entry {index} has the invalid offset {offset:#x}");
                (self.found)(at, reason);
            }
        }
        Ok(())
    }

    /// Returns the number of clusters of the header.
    fn header_clusters(&self) -> u64 {
        let header = &self.qed.header;
        let clusters = header.tables_from.checked_div(header.cluster_bytes);
        clusters.unwrap_or(0)
    }

    /// Returns true if whole clusters begin at an offset, after the header and within the file.
    fn is_within(&self, offset: u64, clusters: u64) -> bool {
        let cluster_bytes = self.qed.cluster_size_bytes();
        let (first, rest) = (
            offset.checked_div(cluster_bytes).unwrap_or(0),
            offset.checked_rem(cluster_bytes),
        );
        let end = first.saturating_add(clusters);
        rest == Some(0) && first >= self.header_clusters() && end <= self.used.clusters()
    }

    /// Marks clusters, and reports those that are in use already. `at` is the place of the entry
    /// that refers to them. Returns true if all were unused.
    fn use_clusters(&mut self, offset: u64, clusters: u64, at: u64) -> bool {
        let cluster_bytes = self.qed.cluster_size_bytes();
        let first = offset.checked_div(cluster_bytes).unwrap_or(0);
        let mut are_new = true;
        for cluster in first..first.saturating_add(clusters) {
            if !self.used.insert(cluster) {
                let offset = cluster.saturating_mul(cluster_bytes);
                let reason = format_args!("the cluster at {offset:#x} is in use more than once");
                (self.found)(at, reason);
                are_new = false;
            }
        }
        are_new
    }
}

/// Returns the offset of an entry of a table.
const fn place(table: u64, index: u64) -> u64 {
    table.saturating_add(index.saturating_mul(8))
}
