//! The places of the two copies of a GPT on a disk.

use diskfs_block::{Error, Result};

use crate::SectorSize;
use crate::gpt::PRIMARY;
use crate::gpt::copy::{CopyError, TableCopy};
use crate::gpt::header::ArraySize;
use crate::sector::Lba;

use super::run::Run;

/// The places to which an edited GPT is written: the backup is always at the end of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GptLayout {
    pub(super) primary_array: Lba,
    pub(super) backup_array: Lba,
    pub(super) backup_header: Lba,
    /// The sectors for partitions.
    pub(super) usable: Run,
}

/// The primary and the backup on a disk, each with the reason if it is not valid.
pub(super) type Copies = [std::result::Result<TableCopy, CopyError>; 2];

impl GptLayout {
    /// Returns the usual layout on an empty disk.
    ///
    /// # Errors
    /// `NoSpace` for a disk without room for partitions.
    pub(super) fn new(
        disk_sectors: u64,
        array: ArraySize,
        sector_size: SectorSize,
    ) -> Result<Self> {
        let array_sectors = array.len_sectors(sector_size);
        let backup_header = disk_sectors.saturating_sub(1);
        let backup_array = backup_header.saturating_sub(array_sectors);
        let usable = Run {
            start: array_sectors.saturating_add(2),
            end: backup_array,
        };
        if usable.is_empty() {
            let minimum = array_sectors.saturating_mul(2).saturating_add(4);
            return Err(Error::new(
                diskfs_block::ErrorKind::NoSpace,
                format!(
                    "the disk is too small for a GPT: {disk_sectors} sectors, at least {minimum}"
                ),
            )
            .with_hint("an MBR needs only one sector"));
        }
        Ok(Self {
            primary_array: Lba(2),
            backup_array: Lba(backup_array),
            backup_header: Lba(backup_header),
            usable,
        })
    }

    /// Returns the layout for a disk with a GPT: the places that its valid copies record,
    /// with the backup at the end of the disk.
    ///
    /// # Errors
    /// `Unsupported` if the copies would overlap each other or the usable sectors.
    pub(super) fn of_disk(
        chosen: &TableCopy,
        copies: &Copies,
        disk_sectors: u64,
        sector_size: SectorSize,
    ) -> Result<Self> {
        let array_sectors = chosen.header.array.len_sectors(sector_size);
        let end = disk_sectors.saturating_sub(1);
        let [primary, backup] = copies;
        let primary_array = match primary {
            Ok(copy) => copy.header.partition_entry_lba,
            Err(e) => e
                .header()
                .map_or(Lba(2), |header| header.partition_entry_lba),
        };
        let first = chosen.header.first_usable_lba.0;
        let (backup_array, last) = match backup {
            Ok(copy) if copy.header.my_lba.0 == end => {
                let last = chosen.header.last_usable_lba.0;
                let array = copy.header.partition_entry_lba.0;
                let fits = array > last && array.saturating_add(array_sectors) <= end;
                let usual = end.saturating_sub(array_sectors);
                (
                    if fits { array } else { usual },
                    last.min(usual.saturating_sub(1)),
                )
            }
            _ => {
                let array = end.saturating_sub(array_sectors);
                (array, array.saturating_sub(1))
            }
        };
        let layout = Self {
            primary_array,
            backup_array: Lba(backup_array),
            backup_header: Lba(end),
            usable: Run {
                start: first,
                end: last.saturating_add(1),
            },
        };
        layout.check(array_sectors).map(|()| layout)
    }

    /// Fails unless the copies are before and after the usable sectors.
    fn check(&self, array_sectors: u64) -> Result<()> {
        let primary = Run::new(self.primary_array.0, array_sectors);
        if self.primary_array.0 > PRIMARY.0 && primary.end <= self.usable.start {
            let before_backup = self.usable.start.max(self.usable.end);
            if before_backup <= self.backup_array.0 {
                return Ok(());
            }
            return Err(Error::unsupported(format!(
                "the usable sectors ({}) overlap the backup GPT (LBA {} to {})",
                self.usable, self.backup_array, self.backup_header
            )));
        }
        Err(Error::unsupported(format!(
            "the entries of the primary GPT ({primary}) are not between its header and the usable \
             sectors ({})",
            self.usable
        ))
        .with_hint("move them with `sgdisk --move-main-table=2`"))
    }

    /// Returns the sectors of the table itself, which no partition may occupy.
    pub(super) fn occupied(&self, array_sectors: u64) -> [Run; 3] {
        [
            Run { start: 0, end: 2 },
            Run::new(self.primary_array.0, array_sectors),
            Run {
                start: self.backup_array.0,
                end: self.backup_header.0.saturating_add(1),
            },
        ]
    }
}
