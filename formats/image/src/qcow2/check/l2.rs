//! The check of L2 tables, and the counting of the guest clusters to which they point.

use diskfs_block::Result;

use crate::qcow2::check::counter::{Counter, TableReferences};
use crate::qcow2::check::report::FindingKind;
use crate::qcow2::check::tables::for_each_word;
use crate::qcow2::l2_entry::{DataPlace, RawKind, RawL2Entry, ZeroClusters};
use crate::qcow2::units::{HostOffset, L2Layout};

/// The state of the walk through one L2 table.
#[derive(Debug, Clone, Copy)]
struct Walk {
    times: u32,
    active: u32,
    /// The end of the last guest cluster, where the next one is not fragmented.
    expected: Option<u64>,
}

impl Counter<'_> {
    /// Counts the clusters to which the entries of all L2 tables point.
    pub(super) fn count_l2_tables(&mut self) -> Result<()> {
        let tables = std::mem::take(&mut self.l2_tables);
        for (at, named) in &tables {
            self.count_l2(*at, *named)?;
        }
        self.l2_tables = tables;
        Ok(())
    }

    fn count_l2(&mut self, table: HostOffset, named: TableReferences) -> Result<()> {
        let geometry = self.header.geometry;
        let words_per_entry = geometry.layout().words();
        let mut walk = Walk {
            times: named.times,
            active: named.active,
            expected: None,
        };
        self.budget.take(table, geometry.cluster_size())?;
        let file = self.file;
        for_each_word(file, table, geometry.cluster_size(), |words, index| {
            if index.is_multiple_of(words_per_entry) {
                let entry = RawL2Entry {
                    descriptor: words.word(index),
                    bitmap: match words_per_entry {
                        1 => 0,
                        _ => words.word(index.saturating_add(1)),
                    },
                };
                if entry.descriptor != 0 || entry.bitmap != 0 {
                    self.count_l2_entry(entry, words.place_of(index), &mut walk);
                }
            }
            Ok(())
        })
    }

    fn invalid(&mut self, entry: RawL2Entry, at: HostOffset, times: u32, what: &str) {
        self.add(FindingKind::L2Entry, at, u64::from(times), || {
            format!("invalid L2 entry {:#018x}: it {what}", entry.descriptor)
        });
    }

    fn count_l2_entry(&mut self, entry: RawL2Entry, at: HostOffset, walk: &mut Walk) {
        let kind = entry.kind(self.rules);
        let is_extended = self.header.geometry.layout() == L2Layout::Extended;
        let is_zero_reserved = is_extended || self.rules.zero_clusters == ZeroClusters::Reserved;
        let reserved = entry.has_reserved_bits() || is_zero_reserved && entry.descriptor & 1 != 0;
        if kind != RawKind::Compressed && reserved {
            self.invalid(entry, at, walk.times, "has reserved bits set");
        }
        match kind {
            RawKind::Compressed => self.count_compressed(entry, at, walk),
            RawKind::Data | RawKind::ZeroAllocated => self.count_standard(entry, at, walk),
            RawKind::Unallocated if entry.allocated() != 0 => {
                let what = "has allocated subclusters but no cluster";
                self.invalid(entry, at, walk.times, what);
            }
            RawKind::Unallocated | RawKind::Zero => {}
        }
    }

    fn count_compressed(&mut self, entry: RawL2Entry, at: HostOffset, walk: &Walk) {
        if entry.is_copied() {
            let what = "is compressed, and has the \"copied\" flag";
            self.invalid(entry, at, walk.times, what);
        }
        if self.rules.data == DataPlace::External {
            let what = "is compressed, which an image with an external data file does not allow";
            self.invalid(entry, at, walk.times, what);
            return;
        }
        if entry.bitmap != 0 {
            self.is_incomplete = true;
            self.invalid(entry, at, walk.times, "is compressed, and has subclusters");
            return;
        }
        let cluster = entry.compressed(self.rules);
        self.count_times(cluster.host, cluster.len_bytes, walk.times);
        let active = u64::from(walk.active);
        let Some(statistics) = self.statistics() else {
            return;
        };
        for number in [
            &mut statistics.allocated_clusters,
            &mut statistics.compressed_clusters,
            // As in QEMU: a compressed cluster is always fragmented.
            &mut statistics.fragmented_clusters,
        ] {
            *number = number.saturating_add(active);
        }
    }

    fn count_standard(&mut self, entry: RawL2Entry, at: HostOffset, walk: &mut Walk) {
        let host = HostOffset(entry.offset());
        let cluster_size = self.header.geometry.cluster_size();
        if entry.has_contradiction() {
            let what = "has subclusters both allocated and zero";
            self.invalid(entry, at, walk.times, what);
        }
        if !self.header.geometry.is_cluster_aligned(host.0) {
            self.is_incomplete = true;
            let what = "points into the middle of a cluster";
            self.invalid(entry, at, walk.times, what);
        }
        let active = u64::from(walk.active);
        let is_fragmented = walk.expected.is_some_and(|expected| expected != host.0);
        if let Some(all) = self.statistics() {
            all.allocated_clusters = all.allocated_clusters.saturating_add(active);
            if is_fragmented {
                all.fragmented_clusters = all.fragmented_clusters.saturating_add(active);
            }
        }
        walk.expected = Some(host.plus(cluster_size).0);
        if self.rules.data == DataPlace::Inside {
            self.count_times(host, cluster_size, walk.times);
        }
    }
}
