//! The check of an image's metadata: reference counts, "copied" flags and the entries of all
//! tables, with the same verdict as `qemu-img check`.
//!
//! * [`counter`], [`l2`]: count the references to each cluster and check table entries;
//! * [`blocks`]: check refcount blocks and compare their counts;
//! * [`copied`]: checks "copied" flags against the counts;
//! * [`report`]: the result.

mod bitmaps;
mod blocks;
mod copied;
mod counter;
mod l2;
mod references;
mod report;
mod tables;

use std::collections::BTreeMap;
use std::ops::Range;

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{power_of_two, round_up, shift_right, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::{Header, Table};
use crate::qcow2::l1_table;
use crate::qcow2::l2_entry::L2Rules;
use crate::qcow2::units::HostOffset;

use blocks::BlockPlace;
use counter::{Counter, TableReferences};

pub(crate) use copied::wrong_flags;
pub(crate) use counter::Scope;
pub(crate) use references::{references, references_of, references_without};
pub use report::{CheckReport, CheckStatistics, Finding, FindingKind};

/// The largest number of clusters to check: 32 TiB at QEMU's default cluster size. It bounds the
/// bitmap of single references to 64 MiB, and the number of walks to 16.
const CLUSTERS_MAX: u64 = 1 << 29;
/// The largest number of clusters to count in one walk: 128 MiB of counters, for 2 TiB at QEMU's
/// default cluster size. A multiple of the number of counts in any refcount block.
const WINDOW_CLUSTERS: u64 = 1 << 25;
/// The result of a check, with what a repair needs to know.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) report: CheckReport,
    /// True if some references could not be followed.
    pub(crate) is_incomplete: bool,
    /// The lowest offset of a reference past the end of the file.
    pub(crate) dangling_from: Option<HostOffset>,
    /// The first cluster after all clusters that are referenced or counted.
    pub(crate) used_end: u64,
    /// True if a cluster has more references than its count can hold.
    pub(crate) has_overflow: bool,
    /// True if refcount blocks are broken or missing.
    pub(crate) needs_rebuild: bool,
    /// The first L2 table to which one L1 table refers twice, and that L1 table.
    pub(crate) shared: Option<(HostOffset, Table)>,
    pub(crate) counts: StoredCounts,
    l2_tables: BTreeMap<HostOffset, TableReferences>,
}

/// The stored counts of all clusters, as far as "copied" flags depend on them.
#[derive(Debug)]
pub(crate) struct StoredCounts {
    /// The bits of clusters with a count of one, one bit for each cluster.
    singles: Vec<u64>,
    /// The bits of clusters with an unreadable count. Empty if all counts are readable.
    unreadable: Vec<u64>,
    clusters: u64,
}

/// Checks the image in `file`.
pub(crate) fn check(file: &dyn BlockRead, header: &Header, rules: L2Rules) -> Result<CheckReport> {
    let mut checked = check_counts(file, header, rules)?;
    let mut report = std::mem::take(&mut checked.report);
    wrong_flags(file, header, &checked, |words, wrong| {
        for flag in wrong {
            flag.add_to(&mut report, words);
        }
        Ok(())
    })?;
    Ok(report)
}

/// Checks the image in `file`, except for "copied" flags.
pub(crate) fn check_counts(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
) -> Result<Checked> {
    check_in_windows(file, header, rules, WINDOW_CLUSTERS)
}

fn check_in_windows(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    window_clusters: u64,
) -> Result<Checked> {
    let mut checked = Checked {
        report: CheckReport::default(),
        is_incomplete: false,
        dangling_from: None,
        used_end: 0,
        has_overflow: false,
        needs_rebuild: false,
        shared: None,
        counts: StoredCounts::new(clusters_of(file, header)),
        l2_tables: BTreeMap::new(),
    };
    let report = &mut checked.report;
    report.statistics.image_end_bytes = header.geometry.cluster_size();
    report.statistics.total_clusters = header.size_bytes.div_ceil(header.geometry.cluster_size());
    for window in windows(file, header, window_clusters)? {
        let mut counter = Counter::new(file, header, rules, window);
        counter.report = std::mem::take(&mut checked.report);
        counter.count_all(Scope::All)?;
        counter.limit_counts();
        counter.compare(|cluster, count| checked.counts.set(cluster, count))?;
        checked.is_incomplete |= counter.is_incomplete;
        checked.needs_rebuild |= counter.needs_rebuild;
        checked.has_overflow |= counter.has_overflow;
        checked.dangling_from = counter.dangling_from;
        checked.used_end = checked.used_end.max(counter.used_end);
        checked.shared = counter.shared;
        checked.l2_tables = counter.l2_tables;
        checked.report = counter.report;
    }
    Ok(checked)
}

/// Returns the number of clusters in the file. The last one may be truncated.
fn clusters_of(file: &dyn BlockRead, header: &Header) -> u64 {
    let bits = header.geometry.cluster_bits();
    shift_right(round_up(file.size_bytes(), bits), bits)
}

/// Returns the ranges of clusters to count in one walk each. The last one includes the cluster
/// after the end of the file, to which compressed data may extend.
fn windows(
    file: &dyn BlockRead,
    header: &Header,
    window_clusters: u64,
) -> Result<impl Iterator<Item = Range<u64>> + use<>> {
    let clusters = clusters_of(file, header);
    if clusters > CLUSTERS_MAX {
        let reason =
            format!("the file is too large to check: {clusters} clusters, at most {CLUSTERS_MAX}");
        return Err(Error::unsupported(reason).with_hint("use `qemu-img check`"));
    }
    let end = clusters.saturating_add(1);
    let starts = (0..end).step_by(to_usize(window_clusters));
    Ok(starts.map(move |start| start..start.saturating_add(window_clusters).min(end)))
}

/// The references to the clusters of one window.
pub(crate) struct WindowReferences<'a>(Counter<'a>);

/// Counts the references to all clusters, window by window, in several walks for a large file.
/// Numbers that a count cannot store are reduced to the largest count.
pub(crate) fn for_each_window(
    file: &dyn BlockRead,
    header: &Header,
    scope: Scope,
    mut visit: impl FnMut(&WindowReferences<'_>) -> Result<()>,
) -> Result<()> {
    for window in windows(file, header, WINDOW_CLUSTERS)? {
        let mut counter = Counter::new(file, header, header.l2_rules(), window);
        counter.count_all(scope)?;
        counter.limit_counts();
        visit(&WindowReferences(counter))?;
    }
    Ok(())
}

impl WindowReferences<'_> {
    /// Returns the clusters of the window.
    pub(crate) fn window(&self) -> Range<u64> {
        self.0.window()
    }

    /// Returns the number of references to a cluster, zero outside of the window.
    pub(crate) fn of(&self, cluster: u64) -> u64 {
        self.0.references(cluster).unwrap_or(0)
    }

    /// Reads the `index`th refcount block, if it has a valid place.
    pub(crate) fn stored_block(&self, index: u64) -> Result<Option<TableSlice>> {
        let place = self.0.block_place(index)?;
        match place {
            BlockPlace::At(_) => self.0.read_block(place),
            BlockPlace::Missing | BlockPlace::Invalid => Ok(None),
        }
    }
}

impl Checked {
    /// Fails for errors that no reference counts and flags can correct.
    pub(crate) fn refuse_unrepairable(&self) -> Result<()> {
        refuse_unrepairable(self.shared, &self.report)
    }
}

fn refuse_unrepairable(shared: Option<(HostOffset, Table)>, report: &CheckReport) -> Result<()> {
    if let Some((table, l1)) = shared {
        return Err(l1_table::shared(table, l1));
    }
    match &report.unrepairable {
        Some(finding) => Err(finding.to_error()),
        None => Ok(()),
    }
}

impl StoredCounts {
    fn new(clusters: u64) -> Self {
        let words = to_usize(
            clusters
                .saturating_add(1)
                .div_ceil(64)
                .min(CLUSTERS_MAX / 64 + 1),
        );
        Self {
            singles: vec![0; words],
            unreadable: Vec::new(),
            clusters,
        }
    }

    fn set(&mut self, cluster: u64, count: Option<u64>) {
        let index = to_usize(cluster / 64);
        let bit = power_of_two(u32::try_from(cluster % 64).unwrap_or(0));
        let words = match count {
            Some(1) => &mut self.singles,
            Some(_) => return,
            None => {
                let len = self.singles.len();
                self.unreadable.resize(len, 0);
                &mut self.unreadable
            }
        };
        if let Some(word) = words.get_mut(index) {
            *word |= bit;
        }
    }

    /// Returns true if the count of a cluster is one; `None` if it is unreadable.
    fn is_single(
        &self,
        file: &dyn BlockRead,
        header: &Header,
        cluster: u64,
    ) -> Result<Option<bool>> {
        if cluster >= self.clusters {
            let count = blocks::stored_count(file, header, cluster)?;
            return Ok(count.map(|count| count == 1));
        }
        let index = to_usize(cluster / 64);
        let bit = power_of_two(u32::try_from(cluster % 64).unwrap_or(0));
        let has = |words: &[u64]| words.get(index).is_some_and(|word| word & bit != 0);
        Ok((!has(&self.unreadable)).then(|| has(&self.singles)))
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::*;
    use crate::create::{NewImage, NewQcow2, create};
    use crate::{CreateOptions, OpenOptions, WritableImage};

    /// An image that is counted in several walks has the same findings as in one walk.
    #[test]
    fn windows_do_not_change_the_result() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let new = NewQcow2 {
            cluster_size_bytes: 512,
            ..NewQcow2::default()
        };
        let image = NewImage::Qcow2(Box::new(new));
        create(&path, &CreateOptions::new(image, Some(1 << 20))).unwrap();
        let image = WritableImage::open(&path, &OpenOptions::default()).unwrap();
        image.device().write_at(1000, &vec![1; 600_000]).unwrap();
        image.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let header = Header::read(&Memory::new(bytes.as_slice())).unwrap();
        // Damage counts, and entries of tables.
        let l1 = to_usize(header.l1.at.0);
        bytes[l1 + 4] ^= 1;
        bytes[l1 + 14] ^= 2;
        for at in (1024..1300).step_by(30) {
            bytes[at] ^= 3;
        }
        let file = Memory::new(bytes);
        let rules = header.l2_rules();
        let expected = check_counts(&file, &header, rules).unwrap();
        assert!(expected.report.corruptions > 5 && expected.report.leaked_clusters > 5);
        // 256 counts are in one block.
        for window_clusters in [256, 512, 2048] {
            let found = check_in_windows(&file, &header, rules, window_clusters).unwrap();
            assert_eq!(found.report, expected.report, "{window_clusters}");
            assert_eq!(found.counts.singles, expected.counts.singles);
            assert_eq!(found.used_end, expected.used_end);
            assert_eq!(found.needs_rebuild, expected.needs_rebuild);
        }
    }
}
