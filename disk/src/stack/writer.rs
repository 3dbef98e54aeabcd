//! A volume with several users that write to it at the same time.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use diskfs_block::{BlockWrite, Result};
use diskfs_volume::Writable;

/// The device of a volume that is open for writing.
type Writer = Writable<dyn BlockWrite>;

/// The shared writer of a volume, which exists while it has users. A RAID marks in its superblocks
/// when copies may differ, and two writers would contradict each other.
#[derive(Debug, Default)]
pub(super) struct SharedWriter(Mutex<Weak<Writer>>);

impl SharedWriter {
    /// Returns the shared writer, or opens it.
    ///
    /// # Errors
    /// The errors of `open`.
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
