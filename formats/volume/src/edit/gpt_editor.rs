//! The editor of a GPT.

mod write;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};

use crate::gpt::copy::{CopyError, TableCopy};
use crate::gpt::entry::{Entry, MAX_NAME_UNITS};
use crate::gpt::header::{ArraySize, HeaderError};
use crate::gpt::{PRIMARY, read_backup};
use crate::mbr::boot_record::LEN_BYTES;
use crate::sector::Lba;
use crate::{Guid, SectorSize};

use super::flag::Flag;
use super::gpt_layout::{Copies, GptLayout};
use super::placement::{Placement, limit_of};
use super::protective_mbr::ProtectiveMbr;
use super::request::{FreeSpace, NewPartition, NewSize};
use super::run::{Run, alignment_sectors, gaps};

/// The revision 1.0.
const REVISION: u32 = 0x0001_0000;

/// A GPT in memory, and where it is written.
#[derive(Debug, Clone)]
pub(super) struct GptEditor {
    sector_size: SectorSize,
    disk_sectors: u64,
    contents: Contents,
    /// The contents that the disk has; `None` for a new table.
    stored: Option<Contents>,
    revision: u32,
    array_size: ArraySize,
    layout: GptLayout,
    /// True if both copies are written even if no partition changed.
    rewrites: bool,
    primary_is_valid: bool,
    /// The header of a backup that is valid.
    valid_backup: Option<Lba>,
    /// The old places of partitions, which are not wiped.
    old_places: Vec<Run>,
}

/// The parts of a GPT that an edit can change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    disk_guid: Guid,
    array: Vec<u8>,
    mbr: ProtectiveMbr,
}

impl GptEditor {
    /// Reads the GPT of `device`.
    ///
    /// # Errors
    /// `Corrupt` if neither copy is valid; `Unsupported` for an unusual layout.
    pub(super) fn read(device: &dyn BlockRead, sector_size: SectorSize) -> Result<Self> {
        let copies = read_copies(device, sector_size)?;
        let chosen = copies.iter().find_map(|copy| copy.as_ref().ok());
        let Some(chosen) = chosen else {
            return Err(Error::corrupt("neither copy of the GPT is valid"));
        };
        let disk_sectors = sector_size.count_on(device);
        let layout = GptLayout::of_disk(chosen, &copies, disk_sectors, sector_size)?;
        let contents = Contents {
            disk_guid: chosen.header.disk_guid,
            array: chosen.array.clone(),
            mbr: ProtectiveMbr::read(device)?,
        };
        let [primary, backup] = &copies;
        let mut editor = Self {
            sector_size,
            disk_sectors,
            stored: Some(contents.clone()),
            contents,
            revision: chosen.header.revision,
            array_size: chosen.header.array,
            layout,
            rewrites: false,
            primary_is_valid: primary.is_ok(),
            valid_backup: backup.as_ref().ok().map(|copy| copy.header.my_lba),
            old_places: Vec::new(),
        };
        editor.old_places = editor.places().collect();
        Ok(editor)
    }

    /// Creates an empty GPT. The disk keeps the boot code in `first_sector`.
    ///
    /// # Errors
    /// `NoSpace` for a disk that is too small.
    pub(super) fn new(
        device: &dyn BlockRead,
        guid: Guid,
        sector_size: SectorSize,
        first_sector: &[u8; LEN_BYTES],
    ) -> Result<Self> {
        let disk_sectors = sector_size.count_on(device);
        let array_size = ArraySize::USUAL;
        let copies = read_copies(device, sector_size)?;
        let [primary, backup] = &copies;
        Ok(Self {
            sector_size,
            disk_sectors,
            contents: Contents {
                disk_guid: guid,
                array: vec![0; array_size.len_bytes],
                mbr: ProtectiveMbr::new(first_sector, disk_sectors),
            },
            stored: None,
            revision: REVISION,
            array_size,
            layout: GptLayout::new(disk_sectors, array_size, sector_size)?,
            rewrites: true,
            primary_is_valid: primary.is_ok(),
            valid_backup: backup.as_ref().ok().map(|copy| copy.header.my_lba),
            old_places: Vec::new(),
        })
    }

    /// Returns the entries in use, with their numbers.
    fn entries(&self) -> impl Iterator<Item = (u32, Entry)> {
        let entries = self
            .contents
            .array
            .chunks_exact(self.array_size.entry_bytes);
        (1..)
            .zip(entries)
            .filter_map(|(number, bytes)| Some((number, Entry::from_bytes(bytes)?)))
    }

    fn places(&self) -> impl Iterator<Item = Run> {
        self.entries().map(|(_, entry)| place(&entry))
    }

    /// Returns the entry of a partition.
    fn entry(&self, number: u32) -> Result<Entry> {
        let found = self.entries().find(|(other, _)| *other == number);
        found.map(|(_, entry)| entry).ok_or_else(|| {
            let numbers: Vec<String> = self.entries().map(|(n, _)| n.to_string()).collect();
            super::no_partition(number, &numbers)
        })
    }

    /// Returns the bytes of an entry in the array.
    fn slot(&mut self, number: u32) -> Option<&mut [u8]> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let mut entries = self
            .contents
            .array
            .chunks_exact_mut(self.array_size.entry_bytes);
        entries.nth(index)
    }

    fn put(&mut self, number: u32, entry: &Entry) {
        if let Some(slot) = self.slot(number) {
            entry.write_to(slot);
        }
    }

    fn placement(&self) -> Placement {
        Placement {
            gaps: gaps(self.layout.usable, self.places()),
            alignment: alignment_sectors(self.disk_sectors, self.sector_size),
            sector_size: self.sector_size,
        }
    }

    pub(super) fn free_space(&self) -> Vec<FreeSpace> {
        let bytes = |sectors| self.sector_size.to_bytes(sectors).unwrap_or(u64::MAX);
        let free = |gap: Run| FreeSpace {
            start_bytes: bytes(gap.start),
            len_bytes: bytes(gap.len_sectors()),
            logical: false,
        };
        self.placement().gaps.into_iter().map(free).collect()
    }

    pub(super) fn add(&mut self, new: &NewPartition) -> Result<u32> {
        if new.role.is_some() {
            return Err(Error::invalid(
                "a GPT has no primary, extended or logical partitions",
            ));
        }
        let type_guid = new.partition_type.guid()?;
        let number = self.free_number(new.number)?;
        self.check_guid(new.guid, number)?;
        check_name(&new.name)?;
        let mut attributes = crate::Attributes::default();
        for flag in &new.flags {
            attributes = flag.apply(attributes, true)?;
        }
        let run = self.placement().place(new.start_bytes, new.size_bytes)?;
        let entry = Entry {
            type_guid,
            guid: new.guid,
            first: Lba(run.start),
            last: Lba(run.end.saturating_sub(1)),
            attributes,
            name: new.name.clone(),
        };
        // An unused entry may have remains of a deleted partition.
        if let Some(slot) = self.slot(number) {
            slot.fill(0);
        }
        self.put(number, &entry);
        Ok(number)
    }

    /// Returns the number for a new partition.
    fn free_number(&self, wanted: Option<u32>) -> Result<u32> {
        let used: Vec<u32> = self.entries().map(|(number, _)| number).collect();
        let count = self.array_size.entries;
        match wanted {
            Some(number) if number == 0 || number > count => Err(Error::invalid(format!(
                "invalid partition number {number}: this GPT has entries 1 to {count}"
            ))),
            Some(number) if used.contains(&number) => Err(Error::new(
                ErrorKind::Exists,
                format!("partition {number} exists already"),
            )),
            Some(number) => Ok(number),
            None => {
                // The numbers are in ascending order.
                let first_gap = (1..).zip(&used).find(|(n, used)| n != *used);
                let number = first_gap.map_or_else(
                    || used.last().map_or(1, |last| last.saturating_add(1)),
                    |(number, _)| number,
                );
                let is_full = || format!("all {count} entries of the GPT are in use");
                let error = || Error::new(ErrorKind::NoSpace, is_full());
                (number <= count).then_some(number).ok_or_else(error)
            }
        }
    }

    /// Fails if another partition, or the disk, has the GUID.
    fn check_guid(&self, guid: Guid, own_number: u32) -> Result<()> {
        if guid.is_nil() {
            return Err(Error::invalid("the nil GUID cannot identify a partition"));
        }
        let mut others = self.entries().filter(|(number, _)| *number != own_number);
        match others.find(|(_, entry)| entry.guid == guid) {
            Some((number, _)) => Err(Error::new(
                ErrorKind::Exists,
                format!("partition {number} has the GUID {guid} already"),
            )),
            None => Ok(()),
        }
    }

    pub(super) fn delete(&mut self, number: u32) -> Result<()> {
        let entry = self.entry(number)?;
        self.contents.mbr.follow(place(&entry), None)?;
        if let Some(slot) = self.slot(number) {
            slot.fill(0);
        }
        Ok(())
    }

    pub(super) fn place_of(&self, number: u32) -> Result<Run> {
        Ok(place(&self.entry(number)?))
    }

    pub(super) fn resize(&mut self, number: u32, size: NewSize) -> Result<Run> {
        let mut entry = self.entry(number)?;
        let run = place(&entry);
        if run.is_empty() {
            return Err(Error::corrupt(format!(
                "partition {number} has no sectors: its first LBA {} is after its last LBA {}",
                entry.first, entry.last
            )));
        }
        let others = self.entries().filter(|(other, _)| *other != number);
        let others = others.map(|(_, entry)| place(&entry));
        let limit = limit_of(run, self.layout.usable.end, others);
        let resized = self.placement().resized(run, size, limit)?;
        self.contents.mbr.follow(run, Some(resized))?;
        entry.last = Lba(resized.end.saturating_sub(1));
        self.put(number, &entry);
        Ok(resized)
    }

    pub(super) fn set_type(&mut self, number: u32, type_guid: Guid) -> Result<()> {
        let entry = self.entry(number)?;
        self.put(number, &Entry { type_guid, ..entry });
        Ok(())
    }

    pub(super) fn set_name(&mut self, number: u32, name: &str) -> Result<()> {
        check_name(name)?;
        let name = name.to_owned();
        let entry = self.entry(number)?;
        self.put(number, &Entry { name, ..entry });
        Ok(())
    }

    pub(super) fn set_guid(&mut self, number: u32, guid: Guid) -> Result<()> {
        let entry = self.entry(number)?;
        self.check_guid(guid, number)?;
        self.put(number, &Entry { guid, ..entry });
        Ok(())
    }

    pub(super) fn set_disk_guid(&mut self, guid: Guid) -> Result<()> {
        if guid.is_nil() {
            return Err(Error::invalid("the nil GUID cannot identify a disk"));
        }
        self.contents.disk_guid = guid;
        Ok(())
    }

    pub(super) fn set_flag(&mut self, number: u32, flag: Flag, set: bool) -> Result<()> {
        let entry = self.entry(number)?;
        let attributes = flag.apply(entry.attributes, set)?;
        self.put(
            number,
            &Entry {
                attributes,
                ..entry
            },
        );
        Ok(())
    }

    /// Requires that both copies are written, also if no partition changes.
    pub(super) fn rewrite(&mut self) {
        self.rewrites = true;
    }
}

/// Returns the LBAs of the headers of a GPT on `device`, which another table replaces.
pub(super) fn header_lbas(device: &dyn BlockRead, sector_size: SectorSize) -> Result<Vec<u64>> {
    let copies = read_copies(device, sector_size)?;
    let headers = copies.iter().filter_map(|copy| match copy {
        Ok(copy) => Some(copy.header.my_lba.0),
        Err(error) => error.header().map(|header| header.my_lba.0),
    });
    Ok(headers.collect())
}

/// Reads the primary and the backup.
fn read_copies(device: &dyn BlockRead, sector_size: SectorSize) -> Result<Copies> {
    let primary = TableCopy::read(device, PRIMARY, sector_size)?;
    let backup = match &primary {
        Ok(copy) if copy.header.alternate_lba == PRIMARY => {
            Err(CopyError::Header(HeaderError::PastEnd))
        }
        Ok(copy) => TableCopy::read(device, copy.header.alternate_lba, sector_size)?,
        Err(error) => read_backup(device, error, sector_size)?,
    };
    Ok([primary, backup])
}

/// Returns the sectors of an entry; none if its first LBA is after its last.
fn place(entry: &Entry) -> Run {
    Run {
        start: entry.first.0,
        end: entry.last.0.saturating_add(1),
    }
}

fn check_name(name: &str) -> Result<()> {
    let units = name.encode_utf16().count();
    if units > MAX_NAME_UNITS || name.contains('\0') {
        return Err(Error::invalid(format!(
            "invalid partition name `{name}`: {units} UTF-16 units, at most {MAX_NAME_UNITS}, \
             without NUL"
        )));
    }
    Ok(())
}
