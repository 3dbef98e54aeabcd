//! A volume that is written by several users at once.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use diskfs_block::{BlockWrite, Result};
use diskfs_volume::Writable;

/// What is written when anybody writes to a volume.
type Writer = Writable<dyn BlockWrite>;

/// One device for all who write to a volume, while anybody does: it says in the superblocks of a RAID
/// when copies may differ, and two would contradict each other.
#[derive(Debug, Default)]
pub(super) struct OneWriter(Mutex<Weak<Writer>>);

impl OneWriter {
    /// The device that others write to, or what `open` opens.
    ///
    /// # Errors
    /// As `open`.
    pub(super) fn get(&self, open: impl FnOnce() -> Result<Writer>) -> Result<Arc<Writer>> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = writer.upgrade() {
            return Ok(open);
        }
        let opened = Arc::new(open()?);
        *writer = Arc::downgrade(&opened);
        Ok(opened)
    }
}
