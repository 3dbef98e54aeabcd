//! The result of a check: findings with their places, totals and statistics.

use std::fmt;

use diskfs_block::Error;

use crate::qcow2::units::HostOffset;

/// The largest number of findings to keep. A report counts the others.
const FINDINGS_MAX: usize = 1000;

/// The result of checking the metadata of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of clusters whose count is higher than their references: space is lost, data is
    /// safe.
    pub leaked_clusters: u64,
    /// The number of errors that endanger data: clusters with more references than their count,
    /// wrong "copied" flags, and invalid entries of tables.
    pub corruptions: u64,
    /// The number of places that could not be checked, because a table is unreadable.
    pub check_errors: u64,
    /// The offset in the file of the first finding that is not a leak.
    pub first_corrupt: Option<u64>,
    /// The first 1000 findings.
    pub findings: Vec<Finding>,
    /// The image's use of space.
    pub statistics: CheckStatistics,
    /// The first finding that a repair does not correct.
    pub(crate) unrepairable: Option<Finding>,
}

/// The use of space of an image, as `qemu-img check` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckStatistics {
    /// The end of the last cluster in use, in bytes from the start of the file.
    pub image_end_bytes: u64,
    /// The number of clusters of the guest's disk.
    pub total_clusters: u64,
    /// The number of guest clusters that are allocated.
    pub allocated_clusters: u64,
    /// The number of allocated clusters that do not follow the one before them in the file.
    pub fragmented_clusters: u64,
    /// The number of allocated clusters that are compressed.
    pub compressed_clusters: u64,
}

/// An error in an image's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of error.
    pub kind: FindingKind,
    /// The offset in the file of the cluster or of the table entry with the error.
    pub offset: u64,
    /// The description of the error.
    pub reason: String,
}

/// The kind of an error in an image's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// A cluster whose count is higher than its references. A repair lowers the count.
    LeakedCluster,
    /// A cluster whose count is lower than its references. A repair raises the count.
    LowCount,
    /// A "copied" flag that contradicts the reference count. A repair sets or clears it.
    CopiedFlag,
    /// A refcount block that is outside of the file, not aligned, or used for something else. A
    /// repair builds new refcount blocks.
    RefcountBlock,
    /// A range of counts that cannot be read. A repair builds new refcount blocks.
    UnreadableCount,
    /// A cluster with more references than a count can hold. It is not repaired.
    Overflow,
    /// A reference to a range past the end of the file. It is not repaired.
    PastEnd,
    /// An invalid L1 entry. It is not repaired.
    L1Entry,
    /// An invalid L2 entry. It is not repaired.
    L2Entry,
    /// An invalid snapshot. It is not repaired.
    Snapshot,
    /// An invalid persistent bitmap. It is not repaired.
    Bitmap,
    /// An invalid entry of the block map, the block allocation table or a grain table of an image of
    /// another format than qcow2. It is not repaired.
    BlockMap,
}

impl FindingKind {
    /// Returns true if a repair corrects errors of this kind, and not only reports them.
    pub const fn is_repairable(self) -> bool {
        matches!(
            self,
            Self::LeakedCluster
                | Self::LowCount
                | Self::CopiedFlag
                | Self::RefcountBlock
                | Self::UnreadableCount
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {:#x})", self.reason, self.offset)
    }
}

impl Finding {
    pub(crate) fn to_error(&self) -> Error {
        Error::corrupt(self.reason.clone()).at(self.offset)
    }
}

impl CheckReport {
    /// Returns true if no error was found.
    pub const fn is_clean(&self) -> bool {
        self.leaked_clusters == 0 && self.corruptions == 0 && self.check_errors == 0
    }

    /// Returns the number of findings that are counted, but not listed.
    pub fn omitted(&self) -> u64 {
        let listed = u64::try_from(self.findings.len()).unwrap_or(u64::MAX);
        let all = self.leaked_clusters.saturating_add(self.corruptions);
        all.saturating_add(self.check_errors).saturating_sub(listed)
    }

    /// Adds an error that occurs `times` times.
    pub(crate) fn add(
        &mut self,
        kind: FindingKind,
        at: HostOffset,
        times: u64,
        reason: impl FnOnce() -> String,
    ) {
        let total = match kind {
            FindingKind::LeakedCluster => &mut self.leaked_clusters,
            FindingKind::UnreadableCount => &mut self.check_errors,
            _ => &mut self.corruptions,
        };
        *total = total.saturating_add(times);
        if kind != FindingKind::LeakedCluster {
            self.first_corrupt.get_or_insert(at.0);
        }
        let is_first_unrepairable = !kind.is_repairable() && self.unrepairable.is_none();
        let is_listed = self.findings.len() < FINDINGS_MAX;
        if !is_listed && !is_first_unrepairable {
            return;
        }
        let finding = Finding {
            kind,
            offset: at.0,
            reason: reason(),
        };
        if is_first_unrepairable {
            self.unrepairable = Some(finding.clone());
        }
        if is_listed {
            self.findings.push(finding);
        }
    }
}
