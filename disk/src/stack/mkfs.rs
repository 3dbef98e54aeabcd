//! Creation of filesystems on volumes.

use diskfs_image::create::Existing;
use diskfs_volume::{Partition, read_table, swap};

pub use diskfs_exfat::FormatOptions as ExfatOptions;
pub use diskfs_ext4::{
    FormatKind as ExtKind, FormatOptions as ExtOptions, TreeUsage, fitting_size,
};
pub use diskfs_fat::{CodePage, FatKind, FormatOptions as FatOptions};
pub use swap::FormatOptions as SwapOptions;

use super::content::Content;
use super::guest_disk::GuestDisk;
use super::place::VolumePlace;
use super::volume::Volume;
use crate::{Error, ErrorKind, Result};

/// The kind of filesystem to create, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewFilesystem {
    /// FAT12, FAT16 or FAT32.
    Fat(FatOptions),
    /// exFAT, with its options.
    Exfat(ExfatOptions),
    /// ext2, ext3 or ext4, with its options.
    Ext(Box<ExtOptions>),
    /// Linux swap space, with its options.
    Swap(SwapOptions),
}

impl Volume {
    /// Creates an empty filesystem on the volume, and returns the new content once it is durable.
    /// Both ends of the volume are wiped so that no old signature is recognised; other old data
    /// stays in place, unreachable. If [`content`](Self::content) was called before, it still
    /// returns the old content.
    ///
    /// # Errors
    /// Before anything is written: `Exists` if the volume has known content, unless it may be
    /// replaced; `Invalid` for options that the filesystem does not support, and for a volume that
    /// is too small or too large for them; as [`writable_device`](Self::writable_device).
    pub fn format(&self, new: &NewFilesystem, existing: Existing) -> Result<Content> {
        self.check_replaceable(existing)?;
        let device = self.writable_device()?;
        let device = &*device;
        match new {
            NewFilesystem::Fat(options) => {
                let options = FatOptions {
                    hidden_sectors: self
                        .hidden_sectors(options.hidden_sectors, options.sector_bytes),
                    ..options.clone()
                };
                diskfs_fat::format(device, &options).map_err(|e| self.in_image(e))?;
            }
            NewFilesystem::Exfat(options) => {
                let options = ExfatOptions {
                    hidden_sectors: self
                        .hidden_sectors(options.hidden_sectors, options.sector_bytes),
                    ..options.clone()
                };
                diskfs_exfat::format(device, &options).map_err(|e| self.in_image(e))?;
            }
            NewFilesystem::Ext(options) => {
                diskfs_ext4::format(device, options).map_err(|e| self.in_image(e))?;
            }
            NewFilesystem::Swap(options) => {
                swap::format(device, options).map_err(|e| self.in_image(e))?;
            }
        }
        self.probe_again()
    }

    /// Fails if the volume has known content that must be kept.
    ///
    /// # Errors
    /// `Exists` if the volume has known content, unless it may be replaced.
    pub fn check_replaceable(&self, existing: Existing) -> Result<()> {
        if let (Existing::Keep, Some(content)) = (existing, self.content()?) {
            let (name, kind) = (self.name(), content.kind);
            let error = Error::new(
                ErrorKind::Exists,
                format!("volume {name} already holds {kind}"),
            );
            return Err(self.in_image(error));
        }
        match (existing, self.place()) {
            (Existing::Keep, VolumePlace::Rest(disk, start_bytes)) => {
                self.refuse_partitions(disk, *start_bytes)
            }
            _ => Ok(()),
        }
    }

    /// Fails if a part of the disk from `start_bytes` on has partitions, or if the disk has a table
    /// that can't be read: it may be repaired.
    fn refuse_partitions(&self, disk: &GuestDisk, start_bytes: u64) -> Result<()> {
        let table = match read_table(&*disk.read()) {
            Err(e) if e.kind() == diskfs_block::ErrorKind::Corrupt => {
                let reason = format!("the disk has a damaged partition table: {}", e.reason());
                return Err(self.in_image(Error::new(ErrorKind::Exists, reason)));
            }
            table => table.map_err(|e| self.in_image(e))?,
        };
        let partitions = table.map_or(Vec::new(), |table| table.partitions);
        let end = |p: &Partition| p.start_bytes.saturating_add(p.len_bytes);
        let count = partitions.iter().filter(|p| end(p) > start_bytes).count();
        if count == 0 {
            return Ok(());
        }
        let reason = format!("the disk has a partition table with {count} partitions there");
        Err(self.in_image(Error::new(ErrorKind::Exists, reason)))
    }

    /// Returns the present content of the volume, probed anew.
    ///
    /// # Errors
    /// `Io` if the content is not recognised.
    pub fn probe_again(&self) -> Result<Content> {
        let made = Content::probe(&*self.device()?).map_err(|e| self.in_image(e))?;
        made.ok_or_else(|| {
            let reason = "the new filesystem is not recognised";
            self.in_image(Error::new(ErrorKind::Io, reason))
        })
    }

    /// Returns the number of sectors before the volume, for the "hidden sectors" field of a
    /// filesystem. A nonzero `given` takes precedence; the result is zero if the field is too small
    /// for the number.
    fn hidden_sectors<N: Copy + Default + PartialEq + TryFrom<u64>>(
        &self,
        given: N,
        sector_bytes: u32,
    ) -> N {
        if given != N::default() {
            return given;
        }
        let before = self.start_bytes().unwrap_or(0) / u64::from(sector_bytes.max(1));
        before.try_into().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;

    /// Formats the partition of a disk, and reads what the filesystem notes at `field`.
    fn noted(new: &NewFilesystem, field: u64) -> u32 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.raw");
        let mut disk = vec![0; 16 << 20];
        disk[446 + 4..446 + 16].copy_from_slice(&[0x0c, 0, 0, 0, 0, 8, 0, 0, 0, 0x70, 0, 0]);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        std::fs::write(&path, disk).unwrap();
        let disk = Disk::options().read_only(false).open(&path).unwrap();
        let volume = disk.volume("p1").unwrap();
        volume.format(new, Existing::Keep).unwrap();
        let mut bytes = [0; 4];
        volume.device().unwrap().read_at(field, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn the_place_on_the_disk_is_noted_unless_another_is_given() {
        let fat = |hidden_sectors| {
            let options = FatOptions {
                hidden_sectors,
                ..FatOptions::default()
            };
            noted(&NewFilesystem::Fat(options), 28)
        };
        let exfat = |hidden_sectors| {
            let options = ExfatOptions {
                hidden_sectors,
                ..ExfatOptions::default()
            };
            noted(&NewFilesystem::Exfat(options), 64)
        };
        assert_eq!([fat(0), fat(77)], [2048, 77]);
        assert_eq!([exfat(0), exfat(77)], [2048, 77]);
    }
}
