//! The check of tables, as `qemu-img check` does it for other formats than qcow2.

use std::fmt::Arguments;
use std::sync::Arc;

use diskfs_block::{ClusterUse, Result};
use diskfs_parallels::Parallels;
use diskfs_qed::Qed;
use diskfs_vdi::Vdi;
use diskfs_vhdx::Vhdx;
use diskfs_vmdk::Vmdk;

use crate::mapped::Mapped;
use crate::qcow2::check::{CheckReport, CheckStatistics, FindingKind};
use crate::qcow2::units::HostOffset;

/// The tables of an image of a format with a check.
#[derive(Debug)]
pub(crate) enum CheckedTables {
    Parallels(Arc<Parallels>),
    Qed(Arc<Qed>),
    Vdi(Arc<Vdi>),
    Vhdx(Arc<Vhdx>),
    Vmdk(Arc<Vmdk>),
}

impl Mapped {
    /// Checks the tables; `None` for a format without a check.
    pub(crate) fn check(&self) -> Result<Option<CheckReport>> {
        let Some(tables) = &self.0.tables else {
            return Ok(None);
        };
        let mut report = CheckReport::default();
        let start = self.0.rules.start_bytes;
        let found = &mut |at: u64, reason: Arguments<'_>| {
            let at = HostOffset(start.saturating_add(at));
            report.add(FindingKind::BlockMap, at, 1, || reason.to_string());
        };
        let unknown = |()| ClusterUse::default();
        let checked = match tables {
            CheckedTables::Parallels(parallels) => parallels.check(found),
            CheckedTables::Qed(qed) => qed.check(found),
            CheckedTables::Vdi(vdi) => vdi.check(found).map(unknown),
            CheckedTables::Vhdx(vhdx) => vhdx.check(found).map(unknown),
            CheckedTables::Vmdk(vmdk) => vmdk.check(found).map(unknown),
        };
        let clusters = checked.map_err(|e| e.in_file(&self.0.path))?;
        add_use(&mut report, clusters);
        Ok(Some(report))
    }
}

/// Adds the leaked clusters and the statistics to a report.
fn add_use(report: &mut CheckReport, clusters: ClusterUse) {
    if clusters.leaked > 0 {
        let reason = || format!("{} clusters are not in use", clusters.leaked);
        let at = HostOffset(clusters.end_bytes);
        report.add(FindingKind::LeakedCluster, at, clusters.leaked, reason);
    }
    report.statistics = CheckStatistics {
        image_end_bytes: clusters.end_bytes,
        total_clusters: clusters.total,
        allocated_clusters: clusters.allocated,
        fragmented_clusters: clusters.fragmented,
        compressed_clusters: 0,
    };
}
