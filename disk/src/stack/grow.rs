//! The growth of a volume's filesystem.

use std::ops::ControlFlow;

use diskfs_ext4::ResizeOptions;
use diskfs_volume::swap;

pub use diskfs_ext4::{NewSpace, Resized};

use super::volume::Volume;
use crate::{Error, ErrorKind, Result};

impl Volume {
    /// Grows an ext2, ext3, ext4, FAT or exFAT filesystem that nobody has mounted, or a swap area,
    /// to the size of the volume. Nothing to grow is a success: both sizes are then equal. A FAT12
    /// or FAT16 grows to the maximum of its type.
    ///
    /// `progress` gets the number of bytes that each step wrote. After a crash the filesystem has
    /// the old or the new size, or the same call completes it. A FAT or exFAT that must be
    /// completed cannot be read until then.
    ///
    /// # Errors
    /// `Unsupported` for another kind of filesystem, and for features that can't be written;
    /// `Corrupt` for a damaged filesystem, before anything is written; `NoSpace` if a filesystem
    /// has no room for a record of the change; as [`writable_device`](Self::writable_device).
    pub fn grow_filesystem(
        &self,
        new_space: NewSpace,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Resized> {
        match self.filesystem_kind()? {
            "ext2" | "ext3" | "ext4" => self.grow_ext(new_space, progress),
            kind => self.resize_in_place(kind, None, progress)?.ok_or_else(|| {
                let reason = format!("growing {kind} is not supported without a microVM");
                self.in_image(Error::new(ErrorKind::Unsupported, reason))
            }),
        }
    }

    fn grow_ext(
        &self,
        new_space: NewSpace,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Resized> {
        let options = ResizeOptions {
            new_space,
            ..ResizeOptions::default()
        };
        let device = self.writable_device()?;
        let resized = diskfs_ext4::resize(&device, &options, progress);
        resized.map_err(|e| self.in_image(e))
    }

    /// Resizes a FAT or exFAT filesystem or a swap area to the size of the volume, or shrinks it to
    /// `size_bytes`. Returns `None` for other kinds.
    pub(super) fn resize_in_place(
        &self,
        kind: &str,
        size_bytes: Option<u64>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<Resized>> {
        if !matches!(kind, "vfat" | "exfat" | "swap") {
            return Ok(None);
        }
        let device = self.writable_device()?;
        let options = diskfs_fat::ResizeOptions {
            size_bytes,
            may_shrink: size_bytes.is_some(),
        };
        let in_clusters = |resized: diskfs_fat::Resized| (resized.old_bytes, resized.new_bytes);
        let sizes = match kind {
            "vfat" => diskfs_fat::resize(&device, &options, progress).map(in_clusters),
            "exfat" => diskfs_exfat::resize(&device, &options, progress).map(in_clusters),
            _ => {
                let resized = swap::resize(&*device, size_bytes).map_err(|e| self.in_image(e))?;
                Ok((resized.old_bytes, resized.new_bytes))
            }
        };
        let (old_bytes, new_bytes) = sizes.map_err(|e| self.in_image(e))?;
        Ok(Some(Resized {
            old_bytes,
            new_bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_image::create::Existing;

    use crate::{Disk, ExfatOptions, FatOptions, NewFilesystem, SwapOptions};

    const MIB: u64 = 1 << 20;

    #[test]
    fn fat_exfat_and_swap_grow_to_the_size_of_the_volume() {
        let kinds = [
            NewFilesystem::Fat(FatOptions::default()),
            NewFilesystem::Exfat(ExfatOptions::default()),
            NewFilesystem::Swap(SwapOptions::default()),
        ];
        for new in kinds {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("disk.raw");
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(9 * MIB).unwrap();
            let disk = Disk::options().read_only(false).open(&path).unwrap();
            disk.whole().format(&new, Existing::Keep).unwrap();
            disk.close().unwrap();
            file.set_len(40 * MIB).unwrap();
            let disk = Disk::options().read_only(false).open(&path).unwrap();
            let volume = disk.whole();
            let grow = || {
                let progress = &mut |_| ControlFlow::Continue(());
                volume.grow_filesystem(NewSpace::Unknown, progress).unwrap()
            };
            let sizes = [grow(), grow()].map(|resized| (resized.old_bytes, resized.new_bytes));
            assert_eq!(
                sizes,
                [(9 * MIB, 40 * MIB), (40 * MIB, 40 * MIB)],
                "{new:?}"
            );
            disk.close().unwrap();
        }
    }
}
