//! New filesystems on volumes.

use diskfs_image::create::Existing;
use diskfs_volume::swap;

pub use diskfs_exfat::FormatOptions as ExfatOptions;
pub use diskfs_fat::{CodePage, FatKind, FormatOptions as FatOptions};
pub use swap::FormatOptions as SwapOptions;

use super::content::Content;
use super::volume::Volume;
use crate::{Error, ErrorKind, Result};

/// What a volume is made into.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewFilesystem {
    /// FAT12, FAT16 or FAT32.
    Fat(FatOptions),
    /// exFAT.
    Exfat(ExfatOptions),
    /// No files, but room for what a machine swaps out.
    Swap(SwapOptions),
}

impl Volume {
    /// Makes an empty filesystem on it. Both ends are wiped, so that nothing is left by which another
    /// would be recognised; the rest of what was there stays where it was, unreachable. What the
    /// volume holds now, durably, is returned; a volume that was asked for its
    /// [`content`](Self::content) before still tells what it was then.
    ///
    /// # Errors
    /// Before anything is written: `Exists` when the volume holds anything that is known, unless it
    /// may be replaced; `Invalid` for options that the filesystem doesn't have, and a volume that is
    /// too small or too large for them; as [`writable_device`](Self::writable_device).
    pub fn format(&self, new: &NewFilesystem, existing: Existing) -> Result<Content> {
        let content = self.content()?;
        if let (Existing::Keep, Some(content)) = (existing, content) {
            let (name, kind) = (self.name(), content.kind);
            let error = Error::new(ErrorKind::Exists, format!("volume {name} holds {kind}"));
            return Err(self.in_image(error));
        }
        let device = self.writable_device()?;
        let device = &*device;
        match new {
            NewFilesystem::Fat(options) => {
                diskfs_fat::format(device, &self.at_place(options))
                    .map_err(|e| self.in_image(e))?;
            }
            NewFilesystem::Exfat(options) => {
                let before = self.sectors_before(options.sector_bytes);
                let options = ExfatOptions {
                    hidden_sectors: before,
                    ..options.clone()
                };
                diskfs_exfat::format(device, &options).map_err(|e| self.in_image(e))?;
            }
            NewFilesystem::Swap(options) => {
                swap::format(device, options).map_err(|e| self.in_image(e))?;
            }
        }
        let made = Content::probe(device).map_err(|e| self.in_image(e))?;
        made.ok_or_else(|| {
            let reason = "what was made is not found again";
            self.in_image(Error::new(ErrorKind::Io, reason))
        })
    }

    /// How many sectors of the disk are before it.
    fn sectors_before(&self, sector_bytes: u32) -> u64 {
        self.start_bytes().unwrap_or(0) / u64::from(sector_bytes.max(1))
    }

    /// With the place on the disk, which FAT notes unless it is told another.
    fn at_place(&self, options: &FatOptions) -> FatOptions {
        let sectors = self.sectors_before(options.sector_bytes);
        FatOptions {
            hidden_sectors: match options.hidden_sectors {
                0 => sectors.try_into().unwrap_or(0),
                given => given,
            },
            ..options.clone()
        }
    }
}
