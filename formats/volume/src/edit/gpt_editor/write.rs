//! The writes of an edited GPT.

use diskfs_block::{BlockWrite, Error, Result};

use crate::gpt::PRIMARY;
use crate::gpt::header::Header;
use crate::sector::Lba;

use super::super::plan::{Plan, PlannedWrite};
use super::super::run::Run;
use super::{GptEditor, place};

impl GptEditor {
    /// Writes the changes; returns false if there are none.
    ///
    /// # Errors
    /// `Corrupt` if a partition occupies sectors of the table; errors of the device.
    pub(in crate::edit) fn write(&self, device: &dyn BlockWrite) -> Result<bool> {
        if !self.rewrites && self.stored.as_ref() == Some(&self.contents) {
            return Ok(false);
        }
        self.check_places()?;
        self.plan()?.execute(device)
    }

    /// Fails if a partition lies outside of the usable sectors so that it would contain the table,
    /// or would be cut off.
    fn check_places(&self) -> Result<()> {
        let occupied = self
            .layout
            .occupied(self.array_size.len_sectors(self.sector_size));
        for (number, entry) in self.entries() {
            let run = place(&entry);
            if run.end > self.disk_sectors {
                return Err(Error::corrupt(format!(
                    "partition {number} ({run}) extends past the end of the disk ({} sectors)",
                    self.disk_sectors
                ))
                .with_hint("enlarge the image again, or delete the partition"));
            }
            if occupied.iter().any(|table| table.overlaps(run)) {
                return Err(Error::corrupt(format!(
                    "partition {number} ({run}) occupies sectors of the partition table, whose \
                     usable sectors are {}",
                    self.layout.usable
                ))
                .with_hint("enlarge the image, or delete the partition"));
            }
        }
        Ok(())
    }

    /// Returns the writes in their order. At each moment at least one copy is valid, and a reader
    /// finds it: the copy that is not in use is written first.
    fn plan(&self) -> Result<Plan> {
        let mut plan = Plan::default();
        let [primary, backup] = [self.primary_writes(), self.backup_writes()];
        let backup_is_at_end = self.valid_backup == Some(self.layout.backup_header);
        if self.primary_is_valid || self.valid_backup.is_none() || !backup_is_at_end {
            self.check_old_backup()?;
            plan.step(backup);
            plan.step(primary);
        } else {
            plan.step(primary);
            plan.step(backup);
        }
        let mut mbr = self.contents.mbr.clone();
        mbr.protect(self.disk_sectors);
        plan.step([PlannedWrite {
            offset: 0,
            bytes: mbr.to_sector(),
        }]);
        plan.step(self.wiped_backup());
        Ok(plan)
    }

    /// Fails if the only valid copy is a backup that the new backup would overwrite.
    fn check_old_backup(&self) -> Result<()> {
        match self.valid_backup {
            Some(old) if !self.primary_is_valid && old.0 >= self.layout.backup_array.0 => {
                Err(Error::unsupported(format!(
                    "the only valid copy of the GPT, the backup at LBA {old}, would be overwritten \
                     by its new place at the end of the disk (LBA {} to {})",
                    self.layout.backup_array, self.layout.backup_header
                ))
                .with_hint("enlarge the image by at least 1 MiB"))
            }
            _ => Ok(()),
        }
    }

    fn primary_writes(&self) -> [PlannedWrite; 2] {
        let layout = self.layout;
        self.copy_writes(PRIMARY, layout.backup_header, layout.primary_array)
    }

    fn backup_writes(&self) -> [PlannedWrite; 2] {
        let layout = self.layout;
        self.copy_writes(layout.backup_header, PRIMARY, layout.backup_array)
    }

    /// Returns the writes of one copy: the entries and the header.
    fn copy_writes(&self, my_lba: Lba, alternate_lba: Lba, array: Lba) -> [PlannedWrite; 2] {
        let header = Header {
            revision: self.revision,
            my_lba,
            alternate_lba,
            first_usable_lba: Lba(self.layout.usable.start),
            last_usable_lba: Lba(self.layout.usable.end.saturating_sub(1)),
            disk_guid: self.contents.disk_guid,
            partition_entry_lba: array,
            array: self.array_size,
            array_crc32: crc32fast::hash(&self.contents.array),
        };
        [
            self.at(array, self.contents.array.clone()),
            self.at(my_lba, header.to_sector(self.sector_size)),
        ]
    }

    fn at(&self, lba: Lba, bytes: Vec<u8>) -> PlannedWrite {
        // Every LBA of the layout lies on the disk.
        let offset = self.sector_size.to_bytes(lba.0).unwrap_or(u64::MAX);
        PlannedWrite { offset, bytes }
    }

    /// Returns the write that removes the header of a backup that was moved: a disk must not have
    /// two. It is kept if it was in a partition, or is where the table is now.
    fn wiped_backup(&self) -> Option<PlannedWrite> {
        let old = self.valid_backup?;
        let header = Run::new(old.0, 1);
        let free = Run {
            end: self.layout.backup_array.0,
            ..self.layout.usable
        };
        let is_wiped = free.holds(header)
            && header.end <= self.disk_sectors
            && !self.old_places.iter().any(|run| run.overlaps(header));
        let len = usize::try_from(self.sector_size.bytes()).ok()?;
        is_wiped.then(|| self.at(old, vec![0; len]))
    }
}
