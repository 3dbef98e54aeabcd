//! The result of a check, and its options.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::finding::{CheckPhase, Finding, FindingKind, FindingPlace};

/// The options of a check.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// The maximum number of findings that are kept. All are counted.
    pub max_findings: usize,
    /// The maximum memory for the sets of blocks, inodes and directories, in bytes.
    pub memory_bytes: u64,
    /// The number of threads; 0 stands for that of the machine, at most 4.
    pub threads: usize,
}

impl Default for CheckOptions {
    /// Returns 1000 findings, 128 MiB, and the machine's number of threads.
    fn default() -> Self {
        Self {
            max_findings: 1000,
            memory_bytes: 128 << 20,
            threads: 0,
        }
    }
}

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// The current phase.
    pub phase: CheckPhase,
    /// The number of units of the phase that are done: block groups or directories.
    pub done: u64,
    /// The number of units of the phase.
    pub total: u64,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The findings in the order of the phases, the steps of e2fsck and the places; at most
    /// [`max_findings`](CheckOptions::max_findings).
    pub findings: Vec<Finding>,
    /// The number of all findings.
    pub total_findings: u64,
    /// The properties that are not inconsistencies, but limit what the check says.
    pub notes: Vec<String>,
    /// The numbers of files and blocks.
    pub statistics: CheckStatistics,
}

impl CheckReport {
    /// Returns true if nothing was found.
    pub const fn is_clean(&self) -> bool {
        self.total_findings == 0
    }
}

/// The counts of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckStatistics {
    /// The number of inodes in use, including the reserved ones.
    pub used_inodes: u64,
    /// The number of regular files.
    pub regular_files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of symlinks.
    pub symlinks: u64,
    /// The number of files and directories with more than one run of blocks.
    pub non_contiguous: u64,
    /// The number of blocks in use; with `bigalloc` a whole number of clusters.
    pub used_blocks: u64,
}

impl CheckStatistics {
    /// Adds the counts of a part of the filesystem.
    pub(super) fn add(&mut self, other: Self) {
        let sums = [
            (&mut self.used_inodes, other.used_inodes),
            (&mut self.regular_files, other.regular_files),
            (&mut self.directories, other.directories),
            (&mut self.symlinks, other.symlinks),
            (&mut self.non_contiguous, other.non_contiguous),
            (&mut self.used_blocks, other.used_blocks),
        ];
        for (sum, count) in sums {
            *sum = sum.saturating_add(count);
        }
    }
}

/// The findings of a running check. If there are too many, those that come first in the order of
/// the phases and places are kept, so that the report does not depend on the threads' speed.
#[derive(Debug)]
pub(super) struct Findings {
    kept: Mutex<KeptFindings>,
    max: usize,
}

#[derive(Debug, Default)]
struct KeptFindings {
    sorted: BTreeSet<(CheckPhase, u8, Finding)>,
    total: u64,
}

impl Findings {
    pub(super) fn new(max: usize) -> Self {
        Self {
            kept: Mutex::default(),
            max,
        }
    }

    /// Adds a finding.
    pub(super) fn add(&self, kind: FindingKind, place: FindingPlace, detail: impl Into<String>) {
        let finding = Finding {
            place,
            kind,
            detail: detail.into(),
        };
        let mut kept = self.kept();
        kept.total = kept.total.saturating_add(1);
        kept.sorted.insert((kind.phase(), kind.step(), finding));
        if kept.sorted.len() > self.max {
            kept.sorted.pop_last();
        }
    }

    /// Returns the kept findings in order, and the number of all.
    pub(super) fn finish(self) -> (Vec<Finding>, u64) {
        let kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let findings = kept.sorted.into_iter().map(|(_, _, finding)| finding);
        (findings.collect(), kept.total)
    }

    fn kept(&self) -> MutexGuard<'_, KeptFindings> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_findings_are_kept_and_all_are_counted() {
        let findings = Findings::new(2);
        for group in [3, 1, 2] {
            let place = FindingPlace::group(group);
            findings.add(FindingKind::BlockBitmap, place, "differs");
        }
        findings.add(FindingKind::Journal, FindingPlace::filesystem(), "invalid");
        let (kept, total) = findings.finish();
        assert_eq!(total, 4);
        let kinds: Vec<_> = kept.iter().map(|f| (f.kind, f.place.group)).collect();
        let expected = [
            (FindingKind::Journal, None),
            (FindingKind::BlockBitmap, Some(1)),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn codes_are_distinct() {
        let codes: BTreeSet<_> = FindingKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), FindingKind::ALL.len());
    }
}
