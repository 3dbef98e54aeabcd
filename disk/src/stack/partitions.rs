//! Changes of a disk's partition table.

use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockWrite, Slice, wipe_ends};
use diskfs_image::create::Existing;
use diskfs_volume::edit::{NewTable, TableEditor};
use diskfs_volume::{SectorSize, TableKind};

use super::Disk;
use super::guest_disk::GuestDisk;
use crate::{Error, ErrorKind, Result};

/// The owners of a device that nothing else uses: the image, and the caller.
const OWN_REFERENCES: usize = 2;

impl Disk {
    /// Returns an editor of the partition table, for changes in memory or to look at the free
    /// space. [`edit_partitions`](Self::edit_partitions) also writes the changes.
    ///
    /// # Errors
    /// `NotFound` without a table; `Unsupported` for a table that is not a GPT or an MBR;
    /// `Corrupt`.
    pub fn partition_editor(&self, sector_size: Option<SectorSize>) -> Result<TableEditor> {
        TableEditor::read(&*self.device(), sector_size).map_err(|e| self.in_image(e))
    }

    /// Changes the partition table. When it returns, the changes that `change` made are durable.
    /// Returns what `change` returned, and true if anything was written. After an error of `change`
    /// nothing is written.
    ///
    /// All volumes and filesystems of the disk must have been dropped: their places may change. The
    /// sector size is detected for a GPT, and 512 bytes for an MBR, unless it is given.
    ///
    /// # Errors
    /// The errors of `change`; `Locked` if a volume of the disk is in use; `ReadOnly` if the disk
    /// is open read-only; as [`partition_editor`](Self::partition_editor).
    pub fn edit_partitions<T>(
        &mut self,
        sector_size: Option<SectorSize>,
        change: impl FnOnce(&mut TableEditor) -> diskfs_block::Result<T>,
    ) -> Result<(T, bool)> {
        let device = self.device_for_table()?;
        let edit = || {
            let mut editor = TableEditor::read(&*device, sector_size)?;
            let value = change(&mut editor)?;
            Ok((value, editor.write(&*device)?))
        };
        edit().map_err(|e: diskfs_block::Error| self.in_image(e))
    }

    /// Changes the partition table like [`edit_partitions`](Self::edit_partitions), and also repairs
    /// a GPT: a crash of the same change can have left only one valid copy, which has it already.
    pub(super) fn edit_and_repair_partitions<T>(
        &mut self,
        change: impl FnOnce(&mut TableEditor) -> diskfs_block::Result<T>,
    ) -> Result<T> {
        let kind = self.partition_table()?.map(|table| table.kind);
        let is_gpt = matches!(kind, Some(TableKind::Gpt | TableKind::HybridMbr));
        let edited = self.edit_partitions(None, |editor| {
            let value = change(editor)?;
            if is_gpt {
                editor.repair()?;
            }
            Ok(value)
        });
        edited.map(|(value, _)| value)
    }

    /// Moves the backup of a GPT to where the disk will end with `disk_bytes`. Other tables have
    /// none.
    ///
    /// # Errors
    /// As [`edit_partitions`](Self::edit_partitions); `Corrupt` if a partition is in the way.
    pub(super) fn move_backup_before(&mut self, disk_bytes: u64) -> Result<()> {
        let kind = self.partition_table()?.map(|table| table.kind);
        if !matches!(kind, Some(TableKind::Gpt | TableKind::HybridMbr)) {
            return Ok(());
        }
        let device = self.device_for_table()?;
        let edit = || {
            let shorter = Slice::new(device, 0, disk_bytes)?;
            let mut editor = TableEditor::read(&shorter, None)?;
            editor.move_backup()?;
            editor.write(&shorter)
        };
        edit().map(drop).map_err(|e| self.in_image(e))
    }

    /// Creates an empty partition table. The boot code of a GPT or an MBR is kept. If a filesystem
    /// or the like on the whole disk is replaced, both ends of the disk are wiped.
    ///
    /// # Errors
    /// Before anything is written: `Exists` if the disk has partitions or other known content,
    /// unless it may be replaced; `NoSpace` for a disk that is too small; as
    /// [`edit_partitions`](Self::edit_partitions).
    pub fn create_partition_table(
        &mut self,
        new: NewTable,
        existing: Existing,
        sector_size: Option<SectorSize>,
    ) -> Result<()> {
        let is_wiped = self.check_replaceable(existing)?;
        let device = self.device_for_table()?;
        let create = || {
            let mut editor = TableEditor::create(&*device, new, sector_size)?;
            if is_wiped {
                wipe_ends(&*device, 0)?;
                editor = TableEditor::create(&*device, new, sector_size)?;
            }
            editor.write(&*device)
        };
        create().map(|_| ()).map_err(|e| self.in_image(e))
    }

    /// Fails if the disk has content that must be kept. Returns true if its signatures must be
    /// wiped.
    fn check_replaceable(&self, existing: Existing) -> Result<bool> {
        let whole = self.whole();
        whole.check_replaceable(existing)?;
        // With `Existing::Replace`, a table of which no copy is valid can be replaced.
        let table = self.partition_table().ok().flatten();
        let is_other = table.is_some_and(|table| {
            !matches!(
                table.kind,
                TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
            )
        });
        Ok(is_other || whole.content()?.is_some())
    }

    /// Returns the device for writing, and forgets what was read from the old table.
    fn device_for_table(&mut self) -> Result<Arc<dyn BlockWrite>> {
        self.volumes = OnceLock::new();
        self.table = OnceLock::new();
        let GuestDisk::Writable(device) = self.guest_disk() else {
            let reason = "the disk is open read-only";
            return Err(self.in_image(Error::new(ErrorKind::ReadOnly, reason)));
        };
        if Arc::strong_count(&device) > OWN_REFERENCES {
            let reason = "cannot change the partition table: a volume of the disk is in use";
            return Err(self.in_image(Error::new(ErrorKind::Locked, reason)));
        }
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_volume::Guid;
    use diskfs_volume::edit::{NewPartition, NewSize, PartitionType};

    const MIB: u64 = 1 << 20;

    fn linux(size_bytes: u64) -> NewPartition {
        NewPartition {
            number: None,
            start_bytes: None,
            size_bytes: Some(size_bytes),
            partition_type: PartitionType::LINUX,
            name: String::new(),
            guid: Guid::from_u128(1),
            flags: Vec::new(),
            role: None,
        }
    }

    fn new_disk() -> (tempfile::TempDir, Disk) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.raw");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(16 * MIB)
            .unwrap();
        let disk = Disk::options().read_only(false).open(&path).unwrap();
        (directory, disk)
    }

    fn gpt() -> NewTable {
        NewTable::Gpt {
            guid: Guid::from_u128(2),
        }
    }

    #[test]
    fn volumes_follow_the_new_table() {
        let (_directory, mut disk) = new_disk();
        assert_eq!(disk.volumes().unwrap()[0].name(), "disk");
        disk.create_partition_table(gpt(), Existing::Keep, None)
            .unwrap();
        let (number, is_written) = disk
            .edit_partitions(None, |editor| editor.add(&linux(4 * MIB)))
            .unwrap();
        assert_eq!((number, is_written), (1, true));
        assert_eq!(disk.volume("p1").unwrap().size_bytes(), 4 * MIB);
        let same = disk.edit_partitions(None, |editor| editor.grow(1, NewSize::Bytes(4 * MIB)));
        assert_eq!(same.unwrap(), (4 * MIB, false));
        let free = disk.partition_editor(None).unwrap().free_space();
        assert_eq!(free.last().unwrap().start_bytes, 5 * MIB);
        disk.close().unwrap();
    }

    #[test]
    fn a_volume_in_use_prevents_changes() {
        let (_directory, mut disk) = new_disk();
        disk.create_partition_table(gpt(), Existing::Keep, None)
            .unwrap();
        disk.edit_partitions(None, |editor| editor.add(&linux(4 * MIB)))
            .unwrap();
        let device = disk.volume("p1").unwrap().writable_device().unwrap();
        let error = disk
            .edit_partitions(None, |editor| editor.delete(1))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        drop(device);
        disk.edit_partitions(None, |editor| editor.delete(1))
            .unwrap();
    }

    #[test]
    fn existing_content_is_kept_unless_it_may_be_replaced() {
        let (directory, mut disk) = new_disk();
        disk.create_partition_table(gpt(), Existing::Keep, None)
            .unwrap();
        // An empty table may be replaced.
        disk.create_partition_table(NewTable::Mbr { signature: 1 }, Existing::Keep, None)
            .unwrap();
        disk.edit_partitions(None, |editor| editor.add(&linux(4 * MIB)))
            .unwrap();
        let error = disk
            .create_partition_table(gpt(), Existing::Keep, None)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        disk.create_partition_table(gpt(), Existing::Replace, None)
            .unwrap();
        assert!(
            disk.partition_table()
                .unwrap()
                .unwrap()
                .partitions
                .is_empty()
        );
        disk.close().unwrap();

        let path = directory.path().join("disk.raw");
        let mut swap = vec![0; 16 << 20];
        swap[4086..4096].copy_from_slice(b"SWAPSPACE2");
        swap[1024] = 1;
        swap[1028] = 200;
        std::fs::write(&path, swap).unwrap();
        let mut disk = Disk::options().read_only(false).open(&path).unwrap();
        let mbr = NewTable::Mbr { signature: 1 };
        let error = disk
            .create_partition_table(mbr, Existing::Keep, None)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        disk.create_partition_table(mbr, Existing::Replace, None)
            .unwrap();
        assert!(disk.whole().content().unwrap().is_none());
        disk.close().unwrap();
        let mut disk = Disk::open(&path).unwrap();
        let error = disk.edit_partitions(None, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
    }
}
