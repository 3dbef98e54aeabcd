//! The client's view of the area that both sides share besides the stream.

use std::fmt::Debug;

use diskfs_vfs::Result;

/// Shared memory of [`BULK_AREA_BYTES`](crate::protocol::BULK_AREA_BYTES), faster than the stream.
/// The machine reads and writes it, too: its bytes are untrusted and may change at any time.
pub trait BulkArea: Debug + Send + Sync {
    /// Fills `to` from the area.
    ///
    /// # Errors
    /// Fails with `Io` outside the area.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<()>;

    /// Writes all of `from` to the area.
    ///
    /// # Errors
    /// Fails for the same reasons as [`read`](Self::read).
    fn write(&self, offset: u64, from: &[u8]) -> Result<()>;
}
