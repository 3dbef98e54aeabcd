//! Shrinking a volume's filesystem.

use std::ops::ControlFlow;

use diskfs_ext4::{Resized, ShrinkOptions};

use super::volume::Volume;
use crate::Result;

impl Volume {
    /// Shrinks an ext2, ext3 or ext4 filesystem to at most `size_bytes`, as `resize2fs` does on an
    /// unmounted filesystem: files at its end move first. The volume keeps its size. A filesystem
    /// that already has that size is a success: both sizes are then equal.
    ///
    /// `progress` gets the number of bytes of the filesystem that were searched for files to be
    /// moved; `Break` stops with the old size. After a crash, the filesystem has the same files, and
    /// the same call completes the work. A filesystem without a journal must be repaired first if
    /// files were moving.
    ///
    /// # Errors
    /// `NoSpace` if its contents need more: the message has the smallest size, as
    /// [`minimum_size`](Self::minimum_size); `Invalid` for a size above the present one;
    /// `Unsupported` for another kind of filesystem, and for features that can't be shrunk;
    /// `Corrupt` for a damaged filesystem, before anything is written; as
    /// [`writable_device`](Self::writable_device).
    pub fn shrink_filesystem(
        &self,
        size_bytes: u64,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Resized> {
        self.refuse_unless_ext("shrinking")?;
        let options = ShrinkOptions::new(size_bytes);
        let device = self.writable_device()?;
        let resized = diskfs_ext4::shrink(&device, &options, progress);
        resized.map_err(|e| self.in_image(e))
    }

    /// Returns the size in bytes to which [`shrink_filesystem`](Self::shrink_filesystem) can shrink
    /// an ext2, ext3 or ext4 filesystem. It is an estimate from above, like that of `resize2fs -P`.
    ///
    /// # Errors
    /// `Unsupported` for another kind of filesystem, and for features that can't be shrunk;
    /// `Corrupt`; as [`device`](Self::device).
    pub fn minimum_size(&self) -> Result<u64> {
        self.refuse_unless_ext("shrinking")?;
        let minimum = diskfs_ext4::minimum_size(&self.device()?);
        minimum.map_err(|e| self.in_image(e))
    }
}
