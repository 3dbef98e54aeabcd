//! The growth of a volume's filesystem.

use std::ops::ControlFlow;

use diskfs_ext4::ResizeOptions;

pub use diskfs_ext4::{NewSpace, Resized};

use super::volume::Volume;
use crate::Result;

impl Volume {
    /// Grows an ext2, ext3 or ext4 filesystem to the size of the volume, as `resize2fs` does on an
    /// unmounted filesystem. Nothing to grow is a success: both sizes are then equal.
    ///
    /// `progress` gets the number of bytes that each step wrote. After a crash the filesystem has the old or the new size, or the same call completes it.
    ///
    /// # Errors
    /// `Unsupported` for another kind of filesystem, and for features that can't be written;
    /// `Corrupt` for a damaged filesystem, before anything is written; as
    /// [`writable_device`](Self::writable_device).
    pub fn grow_filesystem(
        &self,
        new_space: NewSpace,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Resized> {
        self.refuse_unless_ext("growing")?;
        let options = ResizeOptions {
            new_space,
            ..ResizeOptions::default()
        };
        let device = self.writable_device()?;
        let resized = diskfs_ext4::resize(&device, &options, progress);
        resized.map_err(|e| self.in_image(e))
    }
}
