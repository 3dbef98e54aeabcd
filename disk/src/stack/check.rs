//! The check of a volume's filesystem.

use std::ops::ControlFlow;

pub use diskfs_ext4::{
    CheckOptions, CheckPhase, CheckProgress, CheckReport, CheckStatistics, Finding, FindingKind,
    FindingPlace,
};

use super::volume::Volume;
use crate::{Error, ErrorKind, Result};

impl Volume {
    /// Checks all structures of an ext2, ext3 or ext4 filesystem, as `e2fsck -fn` does. Nothing is
    /// written: a journal is replayed in memory.
    ///
    /// # Errors
    /// `Unsupported` for another kind of filesystem, and for features that can't be read; `Io` if
    /// the device fails; `Cancelled` if `progress` stops the check; as
    /// [`content`](Self::content). Damage is not an error: it is in the report.
    pub fn check(
        &self,
        options: &CheckOptions,
        progress: &mut dyn FnMut(CheckProgress) -> ControlFlow<()>,
    ) -> Result<CheckReport> {
        let kind = self.filesystem_kind()?;
        if !matches!(kind, "ext2" | "ext3" | "ext4") {
            let reason = format!("checking {kind} is not supported without a microVM");
            return Err(self.in_image(Error::new(ErrorKind::Unsupported, reason)));
        }
        diskfs_ext4::check(self.device()?, options, progress).map_err(|e| self.in_image(e))
    }
}
