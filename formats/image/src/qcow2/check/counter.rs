//! Counting of the references to each cluster.
//!
//! A walk of all tables counts the references to the clusters of one window, so a large file is
//! counted in several walks with little memory. Only the first walk reports invalid entries.

use std::collections::BTreeMap;
use std::ops::Range;

use diskfs_block::{BlockRead, Result};

use crate::numbers::{low_bits, power_of_two, shift_right, to_usize};
use crate::qcow2::check::report::{CheckReport, CheckStatistics, FindingKind};
use crate::qcow2::check::tables::{Budget, for_each_word};
use crate::qcow2::header::{Header, L1_SIZE_MAX_BYTES, Table};
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::L2Rules;
use crate::qcow2::snapshot_table;
use crate::qcow2::units::HostOffset;

/// The references to an L2 table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableReferences {
    /// The number of references from all L1 tables.
    pub(super) times: u32,
    /// The number of references from the active L1 table.
    pub(super) active: u32,
    /// The number of the L1 table that refers to it last, counted from 1.
    last_l1: u32,
}

/// The structures to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All structures of the image.
    All,
    /// All structures but the snapshot whose entry is at this offset.
    WithoutSnapshot(HostOffset),
    /// All structures but the refcount table and its blocks.
    WithoutRefcounts,
}

/// The counter of references to each cluster of a window.
pub(super) struct Counter<'a> {
    pub(super) file: &'a dyn BlockRead,
    pub(super) header: &'a Header,
    /// The size of the file.
    size_bytes: u64,
    pub(super) rules: L2Rules,
    /// The clusters to count.
    window: Range<u64>,
    pub(super) counts: Vec<u32>,
    /// The references to each L2 table. Each table is read once, however many snapshots share it.
    pub(super) l2_tables: BTreeMap<HostOffset, TableReferences>,
    pub(super) budget: Budget,
    /// The first L2 table to which one L1 table refers twice, and that L1 table.
    pub(super) shared: Option<(HostOffset, Table)>,
    /// True if some references could not be followed, so that clusters may have more references
    /// than were counted.
    pub(super) is_incomplete: bool,
    /// The lowest offset of a reference past the end of the file. New tables must not be placed from
    /// there on, because the reference would then point to them.
    pub(super) dangling_from: Option<HostOffset>,
    /// The first cluster after all clusters that are referenced or counted.
    pub(super) used_end: u64,
    /// True if a cluster has more references than its count can hold.
    pub(super) has_overflow: bool,
    /// True if a cluster in use is in the range of a refcount block that is missing or broken.
    pub(super) needs_rebuild: bool,
    pub(super) report: CheckReport,
}

impl<'a> Counter<'a> {
    pub(super) fn new(
        file: &'a dyn BlockRead,
        header: &'a Header,
        rules: L2Rules,
        window: Range<u64>,
    ) -> Self {
        let len = window.end.saturating_sub(window.start);
        Self {
            file,
            header,
            size_bytes: file.size_bytes(),
            rules,
            counts: vec![0; to_usize(len)],
            window,
            l2_tables: BTreeMap::new(),
            budget: Budget::new(file),
            shared: None,
            is_incomplete: false,
            dangling_from: None,
            used_end: 0,
            has_overflow: false,
            needs_rebuild: false,
            report: CheckReport::default(),
        }
    }

    /// Counts all references, except those that `scope` excludes.
    pub(super) fn count_all(&mut self, scope: Scope) -> Result<()> {
        self.count(HostOffset(0), 1);
        if let Some(luks) = self.header.encryption {
            self.count(luks.at, luks.size_bytes);
        }
        self.count_l1(self.header.l1, 1)?;
        self.count_snapshots(scope)?;
        self.count_l2_tables()?;
        self.count_bitmaps()?;
        if scope != Scope::WithoutRefcounts {
            self.count_refcount_table();
            self.count_refcount_blocks()?;
        }
        Ok(())
    }

    fn count_snapshots(&mut self, scope: Scope) -> Result<()> {
        let snapshots = snapshot_table::read(self.file, self.header)?;
        let at = self.header.snapshots_at;
        self.count(at, snapshots.end.0.saturating_sub(at.0));
        for (entry, number) in snapshots.entries.iter().zip(2_u32..) {
            if scope == Scope::WithoutSnapshot(entry.at) {
                continue;
            }
            if self.header.version >= 3 && entry.snapshot.virtual_size_bytes.is_none() {
                self.add(FindingKind::Snapshot, entry.at, 1, || {
                    "snapshot without the size of its disk, which version 3 requires".to_owned()
                });
            }
            let l1 = entry.l1;
            if !self.header.geometry.is_cluster_aligned(l1.at.0) {
                self.is_incomplete = true;
                self.add(FindingKind::Snapshot, entry.at, 1, || {
                    format!(
                        "L1 table of a snapshot at {}: not at the start of a cluster",
                        l1.at
                    )
                });
            } else if l1.size_bytes() > L1_SIZE_MAX_BYTES {
                self.is_incomplete = true;
                self.add(FindingKind::Snapshot, entry.at, 1, || {
                    format!(
                        "L1 table of a snapshot is too large: {} entries",
                        l1.entries
                    )
                });
            } else {
                self.count_l1(l1, number)?;
            }
        }
        Ok(())
    }

    /// Returns true in the first of several walks.
    const fn is_first(&self) -> bool {
        self.window.start == 0
    }

    /// Returns the statistics in the first of several walks.
    pub(super) fn statistics(&mut self) -> Option<&mut CheckStatistics> {
        self.is_first().then_some(&mut self.report.statistics)
    }

    /// Reports an error, once.
    pub(super) fn add(
        &mut self,
        kind: FindingKind,
        at: HostOffset,
        times: u64,
        reason: impl FnOnce() -> String,
    ) {
        if self.is_first() {
            self.report.add(kind, at, times, reason);
        }
    }

    /// Adds one reference to each cluster that the range touches.
    pub(super) fn count(&mut self, at: HostOffset, len_bytes: u64) {
        self.count_times(at, len_bytes, 1);
    }

    /// Returns true if a range extends past the end of the file. The last cluster of the file may be
    /// truncated.
    pub(super) fn is_past_end(&self, at: HostOffset, len_bytes: u64) -> bool {
        let past_end = at.plus(len_bytes).0.saturating_sub(self.size_bytes);
        past_end >= self.header.geometry.cluster_size()
    }

    pub(super) fn count_times(&mut self, at: HostOffset, len_bytes: u64, times: u32) {
        let bits = self.header.geometry.cluster_bits();
        if len_bytes == 0 {
            return;
        }
        if self.is_past_end(at, len_bytes) {
            self.is_incomplete = true;
            let lowest = self.dangling_from.map_or(at, |lowest| lowest.min(at));
            self.dangling_from = Some(lowest);
            self.add(FindingKind::PastEnd, at, u64::from(times), || {
                format!("a range of {len_bytes} bytes in use is past the end of the file")
            });
            return;
        }
        let first = shift_right(at.0, bits).max(self.window.start);
        let last = shift_right(at.plus(len_bytes.saturating_sub(1)).0, bits);
        let end = last.saturating_add(1).min(self.window.end);
        for cluster in first..end {
            let index = cluster.saturating_sub(self.window.start);
            if let Some(count) = self.counts.get_mut(to_usize(index)) {
                *count = count.saturating_add(times);
            }
        }
    }

    /// Counts the L1 table with this number, and its L2 tables without their entries, which are
    /// counted later.
    pub(super) fn count_l1(&mut self, l1: Table, number: u32) -> Result<()> {
        self.count(l1.at, l1.size_bytes());
        self.budget.take(l1.at, l1.size_bytes())?;
        let file = self.file;
        for_each_word(file, l1.at, l1.size_bytes(), |words, index| {
            let entry = words.word(index);
            if entry != 0 {
                self.count_l1_entry(entry, words.place_of(index), l1, number);
            }
            Ok(())
        })
    }

    fn count_l1_entry(&mut self, entry: u64, at: HostOffset, l1: Table, number: u32) {
        if l1_entry::has_reserved_bits(entry) {
            self.add(FindingKind::L1Entry, at, 1, || {
                format!("invalid L1 entry {entry:#018x}: reserved bits are set")
            });
        }
        let table = HostOffset(l1_entry::offset(entry));
        let cluster_size = self.header.geometry.cluster_size();
        self.count(table, cluster_size);
        if !self.header.geometry.is_cluster_aligned(table.0) {
            self.is_incomplete = true;
            self.add(FindingKind::L1Entry, at, 1, || {
                format!("invalid L1 entry {entry:#018x}: not the offset of a cluster")
            });
            return;
        }
        // This bounds the number of L2 tables by the number of clusters.
        if table.0 >= self.file.size_bytes() {
            return;
        }
        let named = self.l2_tables.entry(table).or_default();
        if named.last_l1 == number {
            self.shared.get_or_insert((table, l1));
        }
        named.last_l1 = number;
        named.times = named.times.saturating_add(1);
        named.active = named.active.saturating_add(u32::from(number == 1));
    }

    /// Returns the largest count that the image can store.
    pub(super) fn count_max(&self) -> u64 {
        let bits = u32::try_from(self.header.refcount_bits()).unwrap_or(u64::BITS);
        low_bits(u64::MAX, bits)
    }

    /// Returns the number of references to a cluster of the window.
    pub(super) fn references(&self, cluster: u64) -> Option<u64> {
        let index = cluster.checked_sub(self.window.start)?;
        self.counts.get(to_usize(index)).copied().map(u64::from)
    }

    /// Reports clusters with more references than a count can store, and reduces their number to
    /// the largest count.
    pub(super) fn limit_counts(&mut self) {
        let max = self.count_max();
        let Ok(max32) = u32::try_from(max) else {
            return;
        };
        let bits = self.header.geometry.cluster_bits();
        let first = self.window.start;
        for (cluster, count) in (first..).zip(&mut self.counts) {
            if *count > max32 {
                self.has_overflow = true;
                let at = HostOffset(cluster.saturating_mul(power_of_two(bits)));
                let times = u64::from(*count).saturating_sub(max);
                let count = std::mem::replace(count, max32);
                self.report.add(FindingKind::Overflow, at, times, || {
                    format!("a cluster has {count} references, and its count holds at most {max}")
                });
            }
        }
    }

    /// Returns the clusters of the window.
    pub(super) fn window(&self) -> Range<u64> {
        self.window.clone()
    }
}
