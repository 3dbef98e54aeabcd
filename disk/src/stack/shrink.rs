//! Shrinking a volume's filesystem.

use std::ops::ControlFlow;

use diskfs_ext4::{Resized, ShrinkOptions};
use diskfs_volume::swap;

use super::volume::Volume;
use crate::{Error, ErrorKind, Result};

impl Volume {
    /// Shrinks an ext2, ext3, ext4, FAT or exFAT filesystem that nobody has mounted, or a swap area,
    /// to at most `size_bytes`: what is stored at its end moves first. The volume keeps its size. A
    /// filesystem that already has that size is a success: both sizes are then equal.
    ///
    /// `progress` gets the number of bytes of the filesystem that were searched for files to be
    /// moved (FAT, exFAT: that were written); `Break` stops with the old size. After a crash, the
    /// filesystem has the same files, and the same call completes the work. An ext2 must be repaired
    /// first if files were moving. A FAT or exFAT that must be completed cannot be read until then.
    ///
    /// # Errors
    /// `NoSpace` or `Invalid` if its contents need more, as [`minimum_size`](Self::minimum_size)
    /// says; `Invalid` for a size above the present one; `Unsupported` for another kind of
    /// filesystem, and for features that can't be shrunk; `Corrupt` for a damaged filesystem, before
    /// anything is written; as [`writable_device`](Self::writable_device).
    pub fn shrink_filesystem(
        &self,
        size_bytes: u64,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Resized> {
        match self.filesystem_kind()? {
            "ext2" | "ext3" | "ext4" => {
                let options = ShrinkOptions::new(size_bytes);
                let device = self.writable_device()?;
                let resized = diskfs_ext4::shrink(&device, &options, progress);
                resized.map_err(|e| self.in_image(e))
            }
            kind => self
                .resize_in_place(kind, Some(size_bytes), progress)?
                .ok_or_else(|| self.cannot_shrink(kind)),
        }
    }

    /// Returns the size in bytes to which [`shrink_filesystem`](Self::shrink_filesystem) can shrink
    /// the filesystem or swap area. For ext2, ext3 and ext4 it is an estimate from above, like that
    /// of `resize2fs -P`. An interrupted change of a FAT or exFAT is completed first, so these need a
    /// volume that is open for writing.
    ///
    /// # Errors
    /// `Unsupported` for another kind of filesystem, and for features that can't be shrunk;
    /// `Corrupt`; as [`device`](Self::device) and [`writable_device`](Self::writable_device).
    pub fn minimum_size(&self) -> Result<u64> {
        let minimum = match self.filesystem_kind()? {
            "ext2" | "ext3" | "ext4" => diskfs_ext4::minimum_size(&self.device()?),
            "vfat" => diskfs_fat::minimum_size(&self.writable_device()?),
            "exfat" => diskfs_exfat::minimum_size(&self.writable_device()?),
            "swap" => return Ok(swap::MIN_BYTES.min(self.size_bytes())),
            kind => return Err(self.cannot_shrink(kind)),
        };
        minimum.map_err(|e| self.in_image(e))
    }

    fn cannot_shrink(&self, kind: &str) -> Error {
        let reason = format!(
            "volume {} holds {kind}, which diskfs cannot shrink",
            self.name()
        );
        let error = Error::new(ErrorKind::Unsupported, reason);
        self.in_image(match kind {
            "xfs" => error.with_hint("copy its files to a smaller filesystem"),
            _ => error,
        })
    }
}
