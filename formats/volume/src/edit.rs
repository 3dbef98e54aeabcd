//! Editing of partition tables: GPT and MBR.
//!
//! [`TableEditor`] reads the table of a disk, or starts a new one. Its methods change the table in
//! memory, and refuse a change that would damage a partition. [`TableEditor::write`] writes the
//! result in an order that a crash survives.
//!
//! ```
//! use diskfs_block::Memory;
//! use diskfs_volume::edit::{NewPartition, NewSize, NewTable, PartitionType, TableEditor};
//! use diskfs_volume::{Guid, read_table};
//!
//! let disk = Memory::new(vec![0; 16 << 20]);
//! let new = NewTable::Gpt { guid: Guid::from_u128(1) };
//! let mut editor = TableEditor::create(&disk, new, None)?;
//! let number = editor.add(&NewPartition {
//!     number: None,
//!     start_bytes: None,
//!     size_bytes: Some(4 << 20),
//!     partition_type: "linux".parse()?,
//!     name: "root".to_owned(),
//!     guid: Guid::from_u128(2),
//!     flags: Vec::new(),
//!     role: None,
//! })?;
//! editor.grow(number, NewSize::Bytes(8 << 20))?;
//! assert!(editor.write(&disk)?);
//!
//! let table = read_table(&disk)?.expect("it has a table");
//! assert_eq!(table.partitions[0].start_bytes, 1 << 20);
//! assert_eq!(table.partitions[0].len_bytes, 8 << 20);
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # What is written
//!
//! Only sectors of the table: the first sector, the headers and entries of a GPT, and extended boot
//! records. The contents of partitions are never changed. A sector that would not change is not
//! written.
//!
//! # Crashes
//!
//! After a crash the disk has the old table or the new one, if one change is written at a time.
//! Several changes of logical partitions in one write may remain in part.

mod flag;
mod gpt_editor;
mod gpt_layout;
mod logical_chain;
mod mbr_editor;
mod partition_type;
mod placement;
mod plan;
mod protective_mbr;
mod request;
mod run;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use crate::{Guid, SectorSize, TableKind, read_table, read_table_with};

pub use flag::Flag;
pub use partition_type::PartitionType;
pub use request::{FreeSpace, MbrRole, NewPartition, NewSize, NewTable, TableId};

use gpt_editor::GptEditor;
use mbr_editor::{MbrEditor, no_names};
use run::Run;

/// A partition table in memory that is being edited.
#[derive(Debug, Clone)]
pub struct TableEditor {
    table: EditedTable,
    sector_size: SectorSize,
}

/// The table, by its kind.
#[derive(Debug, Clone)]
enum EditedTable {
    Gpt(Box<GptEditor>),
    Mbr(Box<MbrEditor>),
}

impl TableEditor {
    /// Reads the table of `device`. The sector size is that of the GPT, 512 bytes for an MBR, or
    /// the one given.
    ///
    /// # Errors
    /// `NotFound` without a table; `Unsupported` for other kinds than GPT and MBR, and for a GPT
    /// with an unusual layout; `Corrupt` for a GPT of which neither copy is valid.
    pub fn read(device: &dyn BlockRead, sector_size: Option<SectorSize>) -> Result<Self> {
        let table = match sector_size {
            Some(size) => read_table_with(device, size)?,
            None => read_table(device)?,
        };
        let Some(table) = table else {
            return Err(
                Error::new(ErrorKind::NotFound, "the disk has no partition table")
                    .with_hint("`diskfs partition create-table` creates one"),
            );
        };
        let sector_size = size_of(table.sector_size);
        let edited = match table.kind {
            TableKind::Gpt | TableKind::HybridMbr => {
                EditedTable::Gpt(Box::new(GptEditor::read(device, sector_size)?))
            }
            TableKind::Mbr if is_lost_gpt(&table) => {
                return Err(
                    Error::corrupt("the MBR protects a GPT, but the GPT is missing")
                        .with_hint("recover it first, with the recovery menu of gdisk"),
                );
            }
            TableKind::Mbr => EditedTable::Mbr(Box::new(MbrEditor::read(device, sector_size)?)),
            kind => {
                return Err(Error::unsupported(format!(
                    "cannot edit a partition table of the kind {kind}; only gpt and mbr"
                )));
            }
        };
        Ok(Self {
            table: edited,
            sector_size,
        })
    }

    /// Starts an empty table in place of what `device` has. The boot code of a present GPT or MBR
    /// is kept. Nothing is written before [`write`](Self::write).
    ///
    /// The sector size is the one given, otherwise that of a present table, otherwise 512 bytes.
    ///
    /// # Errors
    /// `NoSpace` for a disk that is too small; errors of the device.
    pub fn create(
        device: &dyn BlockRead,
        new: NewTable,
        sector_size: Option<SectorSize>,
    ) -> Result<Self> {
        if device.size_bytes() < 512 {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "the disk is too small for a partition table: less than a sector",
            ));
        }
        // A GPT with two broken copies can be replaced, too.
        let present = read_table(device).unwrap_or(None);
        let keeps_boot_code = present.as_ref().is_some_and(|table| {
            matches!(
                table.kind,
                TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
            )
        });
        let present_size = present.map(|table| size_of(table.sector_size));
        let sector_size = sector_size.or(present_size).unwrap_or(SectorSize::B512);
        let mut first_sector = [0; 512];
        if keeps_boot_code {
            device.read_at(0, &mut first_sector)?;
        }
        let table = match new {
            NewTable::Gpt { guid } => EditedTable::Gpt(Box::new(GptEditor::new(
                device,
                guid,
                sector_size,
                &first_sector,
            )?)),
            NewTable::Mbr { signature } => EditedTable::Mbr(Box::new(MbrEditor::new(
                device,
                signature,
                sector_size,
                &first_sector,
                gpt_editor::header_lbas(device, sector_size)?,
            ))),
        };
        Ok(Self { table, sector_size })
    }

    /// Returns the sector size.
    pub fn sector_size(&self) -> SectorSize {
        self.sector_size
    }

    /// Returns the free space, in the order on the disk. It is not aligned.
    pub fn free_space(&self) -> Vec<FreeSpace> {
        match &self.table {
            EditedTable::Gpt(gpt) => gpt.free_space(),
            EditedTable::Mbr(mbr) => mbr.free_space(),
        }
    }

    /// Adds a partition, and returns its number. An extended partition grows if a logical one needs
    /// it.
    ///
    /// # Errors
    /// `NoSpace` without free space or a free entry; `Exists` for a number or GUID that is in use;
    /// `Invalid` for what the table cannot store, and for a start that is not free.
    pub fn add(&mut self, new: &NewPartition) -> Result<u32> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.add(new),
            EditedTable::Mbr(mbr) => mbr.add(new),
        }
    }

    /// Deletes a partition. The numbers of the logical partitions after a logical one decrease by
    /// one.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for an extended partition with logical ones.
    pub fn delete(&mut self, number: u32) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.delete(number),
            EditedTable::Mbr(mbr) => mbr.delete(number),
        }
    }

    /// Grows a partition, and returns its new size in bytes. On a disk that was enlarged, this can
    /// use the new space: the backup of a GPT is moved.
    ///
    /// # Errors
    /// `NotFound`; `NoSpace` if the sectors after the partition are not free; `Invalid` for a size
    /// that is smaller than the present one.
    pub fn grow(&mut self, number: u32, size: NewSize) -> Result<u64> {
        let before = self.place_of(number)?;
        let mut edited = self.clone();
        let after = edited.resize(number, size)?;
        if after.end < before.end {
            return Err(Error::invalid(format!(
                "partition {number} has {} sectors already, more than {}",
                before.len_sectors(),
                after.len_sectors()
            ))
            .with_hint("shrink the filesystem first, and then the partition"));
        }
        *self = edited;
        Ok(self.bytes_of(after))
    }

    /// Shrinks a partition to `size_bytes`, and returns its new size in bytes. The caller must have
    /// shrunk its contents before.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a size of zero or larger than the present one, and for an extended
    /// partition that would not hold its logical ones.
    pub fn shrink(&mut self, number: u32, size_bytes: u64) -> Result<u64> {
        let before = self.place_of(number)?;
        let mut edited = self.clone();
        if size_bytes > self.bytes_of(before) {
            return Err(Error::invalid(format!(
                "partition {number} has {} bytes, fewer than {size_bytes}",
                self.bytes_of(before)
            )));
        }
        let after = edited.resize(number, NewSize::Bytes(size_bytes))?;
        *self = edited;
        Ok(self.bytes_of(after))
    }

    fn bytes_of(&self, run: Run) -> u64 {
        let bytes = self.sector_size.to_bytes(run.len_sectors());
        bytes.unwrap_or(u64::MAX)
    }

    fn place_of(&self, number: u32) -> Result<Run> {
        match &self.table {
            EditedTable::Gpt(gpt) => gpt.place_of(number),
            EditedTable::Mbr(mbr) => mbr.place_of(number),
        }
    }

    fn resize(&mut self, number: u32, size: NewSize) -> Result<Run> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.resize(number, size),
            EditedTable::Mbr(mbr) => mbr.resize(number, size),
        }
    }

    /// Sets the type of a partition.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a type that the table cannot store.
    pub fn set_type(&mut self, number: u32, partition_type: PartitionType) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.set_type(number, partition_type.guid()?),
            EditedTable::Mbr(mbr) => mbr.set_type(number, partition_type.byte()?),
        }
    }

    /// Sets the name of a partition in a GPT.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a name of more than 36 UTF-16 units, and in an MBR.
    pub fn set_name(&mut self, number: u32, name: &str) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.set_name(number, name),
            EditedTable::Mbr(_) => Err(no_names()),
        }
    }

    /// Sets the unique GUID of a partition in a GPT.
    ///
    /// # Errors
    /// `NotFound`; `Exists` if another partition has it; `Invalid` in an MBR.
    pub fn set_guid(&mut self, number: u32, guid: Guid) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.set_guid(number, guid),
            EditedTable::Mbr(_) => Err(Error::invalid(
                "the partitions of an MBR have no UUIDs of their own",
            )
            .with_hint("set the disk id instead, from which they are derived")),
        }
    }

    /// Sets the id of the disk.
    ///
    /// # Errors
    /// `Invalid` for an id of the other kind of table.
    pub fn set_disk_id(&mut self, id: TableId) -> Result<()> {
        match (&mut self.table, id) {
            (EditedTable::Gpt(gpt), TableId::Guid(guid)) => gpt.set_disk_guid(guid),
            (EditedTable::Mbr(mbr), TableId::Signature(signature)) => {
                mbr.set_signature(signature);
                Ok(())
            }
            (EditedTable::Gpt(_), TableId::Signature(_)) => {
                Err(Error::invalid("the id of a disk with a GPT is a GUID"))
            }
            (EditedTable::Mbr(_), TableId::Guid(_)) => Err(Error::invalid(
                "the id of a disk with an MBR has eight hexadecimal digits",
            )),
        }
    }

    /// Sets or clears a flag of a partition. Only one entry of an MBR can be active: the flag of
    /// the others is cleared.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a flag that the table cannot store.
    pub fn set_flag(&mut self, number: u32, flag: Flag, set: bool) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => gpt.set_flag(number, flag, set),
            EditedTable::Mbr(mbr) => mbr.set_flag(number, flag, set),
        }
    }

    /// Moves the backup of a GPT to the end of the disk, and makes the added space usable. Every
    /// other change of a GPT does this, too.
    ///
    /// # Errors
    /// `Invalid` for an MBR.
    pub fn move_backup(&mut self) -> Result<()> {
        self.rewrite("an MBR has no backup")
    }

    /// Rewrites both copies of a GPT and its protective entry, so that a broken copy, and one that
    /// differs, are repaired. Valid bytes are not written.
    ///
    /// # Errors
    /// `Invalid` for an MBR.
    pub fn repair(&mut self) -> Result<()> {
        self.rewrite("an MBR has no second copy to repair it from")
    }

    fn rewrite(&mut self, refusal: &'static str) -> Result<()> {
        match &mut self.table {
            EditedTable::Gpt(gpt) => {
                gpt.rewrite();
                Ok(())
            }
            EditedTable::Mbr(_) => Err(Error::invalid(refusal)),
        }
    }

    /// Writes the changes to `device`, which must be the one that was read. They are durable when
    /// this returns. Returns false if there are none: then nothing is written.
    ///
    /// # Errors
    /// `Corrupt` if a partition occupies sectors of the table; errors of the device.
    pub fn write(&self, device: &dyn BlockWrite) -> Result<bool> {
        match &self.table {
            EditedTable::Gpt(gpt) => gpt.write(device),
            EditedTable::Mbr(mbr) => mbr.write(device),
        }
    }
}

fn size_of(sector_bytes: u32) -> SectorSize {
    let mut sizes = SectorSize::ALL.into_iter();
    let size = sizes.find(|size| size.bytes() == sector_bytes);
    size.unwrap_or(SectorSize::B512)
}

/// Returns true if an MBR protects a GPT that is not there.
fn is_lost_gpt(table: &crate::PartitionTable) -> bool {
    let is_protective = |p: &crate::Partition| {
        matches!(
            p.kind,
            crate::PartitionKind::Mbr {
                type_byte: 0xee,
                ..
            }
        )
    };
    table.partitions.iter().any(is_protective)
}

fn no_partition(number: u32, numbers: &[String]) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("no partition {number}"));
    if numbers.is_empty() {
        return error.with_hint("the table is empty");
    }
    error.with_hint(format!("the partitions are {}", numbers.join(", ")))
}
