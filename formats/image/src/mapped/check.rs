//! The check of tables, as `qemu-img check` does it for other formats than qcow2.

use std::fmt::Arguments;
use std::sync::Arc;

use diskfs_block::Result;
use diskfs_vdi::Vdi;
use diskfs_vhdx::Vhdx;
use diskfs_vmdk::Vmdk;

use crate::mapped::Mapped;
use crate::qcow2::check::{CheckReport, FindingKind};
use crate::qcow2::units::HostOffset;

/// The tables of an image of a format with a check.
#[derive(Debug)]
pub(crate) enum CheckedTables {
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
        let checked = match tables {
            CheckedTables::Vdi(vdi) => vdi.check(found),
            CheckedTables::Vhdx(vhdx) => vhdx.check(found),
            CheckedTables::Vmdk(vmdk) => vmdk.check(found),
        };
        checked.map_err(|e| e.in_file(&self.0.path))?;
        Ok(Some(report))
    }
}
