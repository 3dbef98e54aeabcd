//! What both ends see besides the stream.

use std::fmt::Debug;

use diskfs_vfs::Result;

/// Memory of [`BULK_AREA_BYTES`](crate::protocol::BULK_AREA_BYTES) that the machine reads and writes, too,
/// faster than the stream. What it has written there may be anything, and may change at any time.
pub trait BulkArea: Debug + Send + Sync {
    /// Reads all of `to` from there.
    ///
    /// # Errors
    /// `Io` for what lies outside.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<()>;

    /// Writes all of `from` there.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn write(&self, offset: u64, from: &[u8]) -> Result<()>;
}
