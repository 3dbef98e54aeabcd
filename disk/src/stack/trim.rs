//! The free space of a volume's filesystem, and its removal from the image.

use std::ops::{ControlFlow, Range};

use diskfs_block::{BlockRead, ExtentKind, check_cancelled};

use super::driver::WriteOptions;
use super::volume::Volume;
use crate::Result;

/// The most bytes to discard with one request, so that progress can be shown and the work stopped.
const DISCARD_MAX_BYTES: u64 = 1 << 30;

/// The space of a filesystem that nothing uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeSpace {
    /// The size of the free space in bytes.
    pub free_bytes: u64,
    /// The part of it that the image stores as data, in bytes. What only a backing file of the
    /// image stores is not included.
    pub stored_bytes: u64,
}

impl Volume {
    /// Returns the free space of the volume's filesystem. Nothing is written.
    ///
    /// # Errors
    /// `Unsupported` for a kind of filesystem without a driver, and for a filesystem that must be
    /// recovered first; `Corrupt` if its metadata can't be trusted; as [`device`](Self::device).
    pub fn free_space(&self) -> Result<FreeSpace> {
        let device = self.device()?;
        self.each_stored(&*device, |_| Ok(()))
    }

    /// Discards the free space of the volume's filesystem, as fstrim(8) does in a running guest:
    /// the image then stores less. Only space that the image stores is discarded. A journal is
    /// replayed first. What only a backing file stores is left alone: to hide it, an overlay would
    /// have to grow. `progress` gets the number of bytes that each step discarded.
    ///
    /// An interruption at any moment is safe: files and metadata are not touched, and the next run
    /// discards the rest.
    ///
    /// # Errors
    /// As [`free_space`](Self::free_space) and [`writable_device`](Self::writable_device);
    /// `Cancelled` if `progress` stops the work.
    pub fn trim(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<FreeSpace> {
        // A filesystem that can't be written can't be trusted to know its free space, either.
        // Closing it leaves nothing to be replayed.
        let fs = self.native_writable_filesystem(WriteOptions::default())?;
        fs.close().map_err(|e| self.in_image(e))?;
        drop(fs);
        let device = self.writable_device()?;
        let trimmed = self.each_stored(&*device, |range| {
            let mut at = range.start;
            while at < range.end {
                let len_bytes = range.end.saturating_sub(at).min(DISCARD_MAX_BYTES);
                device.discard(at, len_bytes)?;
                check_cancelled(progress(len_bytes))?;
                at = at.saturating_add(len_bytes);
            }
            Ok(())
        })?;
        device.flush().map_err(|e| self.in_image(e))?;
        Ok(trimmed)
    }

    /// Calls `visit` with each range of free space that `device` stores.
    fn each_stored<D: BlockRead + ?Sized>(
        &self,
        device: &D,
        mut visit: impl FnMut(Range<u64>) -> diskfs_block::Result<()>,
    ) -> Result<FreeSpace> {
        let fs = self.native_filesystem()?;
        let mut space = FreeSpace::default();
        for range in fs.free_ranges().map_err(|e| self.in_image(e))? {
            let range = range.map_err(|e| self.in_image(e))?;
            let len_bytes = range.end.saturating_sub(range.start);
            space.free_bytes = space.free_bytes.saturating_add(len_bytes);
            for stored in stored_ranges(device, range) {
                let stored = stored.map_err(|e| self.in_image(e))?;
                let len_bytes = stored.end.saturating_sub(stored.start);
                space.stored_bytes = space.stored_bytes.saturating_add(len_bytes);
                visit(stored).map_err(|e| self.in_image(e))?;
            }
        }
        Ok(space)
    }
}

/// Returns the parts of a range that the device itself stores as data.
fn stored_ranges<D: BlockRead + ?Sized>(
    device: &D,
    range: Range<u64>,
) -> impl Iterator<Item = diskfs_block::Result<Range<u64>>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        while at < range.end {
            let start = at;
            let extent = match device.stored_at(start) {
                Ok(extent) => extent,
                Err(error) => {
                    at = range.end;
                    return Some(Err(error));
                }
            };
            at = start.saturating_add(extent.len_bytes).min(range.end);
            if extent.kind == ExtentKind::Data {
                return Some(Ok(start..at));
            }
        }
        None
    })
}
