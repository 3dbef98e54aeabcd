//! The editor of an MBR.

mod logical;
mod write;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};

use crate::SectorSize;
use crate::mbr::boot_record::LEN_BYTES;
use crate::mbr::{BootRecord, Entry};
use crate::partition::is_extended;

use super::flag::Flag;
use super::logical_chain::LogicalChain;
use super::placement::{Placement, limit_of};
use super::request::{FreeSpace, MbrRole, NewPartition, NewSize};
use super::run::{Run, alignment_sectors, gaps};

/// The number of sectors that an MBR can describe: 2 TiB in sectors of 512 bytes.
const MAX_SECTORS: u64 = 1 << 32;

/// The first number of a logical partition.
const FIRST_LOGICAL: u32 = 5;

/// An MBR in memory.
#[derive(Debug, Clone)]
pub(super) struct MbrEditor {
    sector_size: SectorSize,
    disk_sectors: u64,
    /// The first sector as it was read.
    sector: [u8; LEN_BYTES],
    contents: Contents,
    /// The contents that the disk has; `None` for a new table.
    stored: Option<Contents>,
    /// The headers of a GPT that the new MBR replaces.
    gpt_headers: Vec<u64>,
}

/// The parts of an MBR that an edit can change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    signature: u32,
    entries: [Entry; 4],
    /// The chain of the extended partition, if there is one; otherwise the reason why it cannot be
    /// edited.
    chain: std::result::Result<Option<LogicalChain>, String>,
}

/// An entry of the table: the index in the MBR, or that of a record of the chain.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Primary(usize),
    Logical(usize),
}

impl MbrEditor {
    /// Reads the MBR of `device`.
    ///
    /// # Errors
    /// `Corrupt` without a boot record; errors of the device.
    pub(super) fn read(device: &dyn BlockRead, sector_size: SectorSize) -> Result<Self> {
        let mut sector = [0; LEN_BYTES];
        device.read_at(0, &mut sector)?;
        let record = BootRecord::from_sector(&sector)
            .ok_or_else(|| Error::corrupt("the first sector has no signature 55 AA").at(510))?;
        let contents = Contents {
            signature: record.disk_signature,
            entries: record.entries,
            chain: read_chain(device, sector_size, &record.entries)?,
        };
        Ok(Self {
            sector_size,
            disk_sectors: sector_size.count_on(device),
            sector,
            stored: Some(contents.clone()),
            contents,
            gpt_headers: Vec::new(),
        })
    }

    /// Creates an empty MBR. The disk keeps the boot code in `first_sector`; `gpt_headers` are the
    /// LBAs of the headers of a GPT that it had.
    pub(super) fn new(
        device: &dyn BlockRead,
        signature: u32,
        sector_size: SectorSize,
        first_sector: &[u8; LEN_BYTES],
        gpt_headers: Vec<u64>,
    ) -> Self {
        Self {
            sector_size,
            disk_sectors: sector_size.count_on(device),
            sector: *first_sector,
            contents: Contents {
                signature,
                entries: [Entry::UNUSED; 4],
                chain: Ok(None),
            },
            stored: None,
            gpt_headers,
        }
    }

    /// Returns the index of the extended partition.
    fn extended(&self) -> Option<usize> {
        let mut entries = self.contents.entries.iter();
        entries.position(|entry| entry.is_used() && is_extended(entry.type_byte))
    }

    fn extended_run(&self) -> Option<Run> {
        let entry = self.contents.entries.get(self.extended()?)?;
        Some(run_of(entry))
    }

    /// Returns the runs of the entries in use but that with this index.
    fn other_runs(&self, but: Option<usize>) -> impl Iterator<Item = Run> {
        let entries = self.contents.entries.iter().enumerate();
        let others = entries.filter(move |(index, entry)| entry.is_used() && Some(*index) != but);
        others.map(|(_, entry)| run_of(entry))
    }

    /// Returns the space of primary partitions.
    fn space(&self) -> Run {
        Run {
            start: 1,
            end: self.disk_sectors.min(MAX_SECTORS),
        }
    }

    fn placement(&self, gaps: Vec<Run>) -> Placement {
        Placement {
            gaps,
            alignment: alignment_sectors(self.disk_sectors, self.sector_size),
            sector_size: self.sector_size,
        }
    }

    /// Returns the gaps between primary partitions.
    fn primary_gaps(&self) -> Vec<Run> {
        gaps(self.space(), self.other_runs(None))
    }

    pub(super) fn free_space(&self) -> Vec<FreeSpace> {
        let bytes = |sectors| self.sector_size.to_bytes(sectors).unwrap_or(u64::MAX);
        let free = |gap: Run, logical| FreeSpace {
            start_bytes: bytes(gap.start),
            len_bytes: bytes(gap.len_sectors()),
            logical,
        };
        let primary = self.primary_gaps().into_iter().map(|gap| free(gap, false));
        let logical = self
            .extended_run()
            .and_then(|run| self.logical_gaps(run).ok());
        let logical = logical.unwrap_or_default().into_iter();
        let mut all: Vec<FreeSpace> = primary.chain(logical.map(|gap| free(gap, true))).collect();
        all.sort_by_key(|free| free.start_bytes);
        all
    }

    pub(super) fn add(&mut self, new: &NewPartition) -> Result<u32> {
        if !new.name.is_empty() {
            return Err(no_names());
        }
        let type_byte = new.partition_type.byte()?;
        let role = self.role(new, type_byte)?;
        let mut entry = Entry {
            type_byte,
            ..Entry::UNUSED
        };
        for flag in &new.flags {
            check_flag(*flag)?;
            entry.boot_indicator = 0x80;
        }
        match role {
            MbrRole::Logical => self.add_logical(new, entry),
            MbrRole::Primary | MbrRole::Extended => self.add_primary(new, entry),
        }
    }

    /// Returns the kind of a new entry, decided if it is not given.
    fn role(&self, new: &NewPartition, type_byte: u8) -> Result<MbrRole> {
        let is_container = is_extended(type_byte);
        let role = new.role.unwrap_or_else(|| {
            let start = new.start_bytes.unwrap_or(0);
            let start = start.checked_div(self.sector_size.len_bytes()).unwrap_or(0);
            let inside = self.extended_run().is_some_and(|run| run.contains(start));
            let is_full = self.contents.entries.iter().all(Entry::is_used);
            let by_number = new.number.map(|number| number >= FIRST_LOGICAL);
            match by_number.unwrap_or(inside || is_full) {
                _ if is_container => MbrRole::Extended,
                true => MbrRole::Logical,
                false => MbrRole::Primary,
            }
        });
        if is_container != (role == MbrRole::Extended) {
            return Err(Error::invalid(format!(
                "type {type_byte:#04x} does not match: an extended partition has the type 0x05, \
                 0x0f or 0x85, and no other partition has"
            )));
        }
        if role == MbrRole::Extended && self.extended().is_some() {
            return Err(Error::new(
                ErrorKind::Exists,
                "the disk has an extended partition already, and can have only one",
            ));
        }
        if role == MbrRole::Logical && new.flags.contains(&Flag::Active) {
            return Err(Error::invalid(
                "a BIOS cannot boot from a logical partition",
            ));
        }
        Ok(role)
    }

    fn add_primary(&mut self, new: &NewPartition, entry: Entry) -> Result<u32> {
        let index = self.free_entry(new.number)?;
        let placement = self.placement(self.primary_gaps());
        let run = placement.place(new.start_bytes, new.size_bytes);
        let run = run.map_err(|error| self.explain_limit(error))?;
        let entry = with_run(entry, run)?;
        if is_extended(entry.type_byte) {
            self.contents.chain = Ok(Some(LogicalChain::new(entry.start_sectors)));
        }
        if entry.boot_indicator != 0 {
            self.clear_active();
        }
        if let Some(slot) = self.contents.entries.get_mut(index) {
            *slot = entry;
        }
        Ok(number_of(index))
    }

    /// Adds the advice to use a GPT to an error on a disk that is too large for an MBR.
    fn explain_limit(&self, error: Error) -> Error {
        if self.disk_sectors <= MAX_SECTORS {
            return error;
        }
        let reason = format!(
            "{}; an MBR can only use the first {MAX_SECTORS} of {} sectors",
            error.reason(),
            self.disk_sectors
        );
        Error::new(error.kind(), reason).with_hint("use a GPT for disks of more than 2 TiB")
    }

    /// Returns the index of the entry for a new primary partition.
    fn free_entry(&self, number: Option<u32>) -> Result<usize> {
        let is_free = |index: &usize| {
            let entry = self.contents.entries.get(*index);
            entry.is_some_and(|entry| !entry.is_used())
        };
        let Some(number) = number else {
            return (0..4).find(is_free).ok_or_else(|| {
                Error::new(ErrorKind::NoSpace, "all four entries of the MBR are in use")
                    .with_hint("use a logical partition, or a GPT")
            });
        };
        let index = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_sub(1));
        let index = index.filter(|index| *index < 4).ok_or_else(|| {
            Error::invalid(format!(
                "invalid number {number} of a primary partition: the entries are 1 to 4"
            ))
        })?;
        if is_free(&index) {
            return Ok(index);
        }
        Err(Error::new(
            ErrorKind::Exists,
            format!("partition {number} exists already"),
        ))
    }

    /// Returns the entry of a partition.
    fn slot(&self, number: u32) -> Result<Slot> {
        if number < FIRST_LOGICAL {
            let index = usize::try_from(number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let used = |index: &usize| {
                let entry = self.contents.entries.get(*index);
                entry.is_some_and(Entry::is_used)
            };
            let index = index.filter(used);
            return index
                .map(Slot::Primary)
                .ok_or_else(|| self.not_found(number));
        }
        let nth = usize::try_from(number.saturating_sub(FIRST_LOGICAL)).unwrap_or(usize::MAX);
        let record = self
            .chain()?
            .and_then(|chain| chain.with_partition().nth(nth));
        record
            .map(Slot::Logical)
            .ok_or_else(|| self.not_found(number))
    }

    fn not_found(&self, number: u32) -> Error {
        let primary = (1..)
            .zip(&self.contents.entries)
            .filter(|(_, entry)| entry.is_used());
        let primary = primary.map(|(number, _): (u32, _)| number.to_string());
        let logical = self.chain().ok().flatten();
        let count = logical.map_or(0, |chain| chain.with_partition().count());
        let logical = (FIRST_LOGICAL..)
            .take(count)
            .map(|number| number.to_string());
        let numbers: Vec<String> = primary.chain(logical).collect();
        super::no_partition(number, &numbers)
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        match slot {
            Slot::Primary(index) => self.contents.entries.get(index),
            Slot::Logical(index) => {
                let chain = self.contents.chain.as_ref().ok()?.as_ref()?;
                chain.records.get(index)?.partition.as_ref()
            }
        }
    }

    fn entry_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        match slot {
            Slot::Primary(index) => self.contents.entries.get_mut(index),
            Slot::Logical(index) => {
                let chain = self.contents.chain.as_mut().ok()?.as_mut()?;
                chain.records.get_mut(index)?.partition.as_mut()
            }
        }
    }

    pub(super) fn delete(&mut self, number: u32) -> Result<()> {
        match self.slot(number)? {
            Slot::Logical(index) => self.chain_mut()?.remove(index),
            Slot::Primary(index) => {
                if self.extended() == Some(index) {
                    self.check_is_empty(number)?;
                    self.contents.chain = Ok(None);
                }
                if let Some(entry) = self.contents.entries.get_mut(index) {
                    *entry = Entry::UNUSED;
                }
            }
        }
        Ok(())
    }

    pub(super) fn place_of(&self, number: u32) -> Result<Run> {
        let slot = self.slot(number)?;
        let entry = self.entry(slot);
        Ok(entry.map_or(Run { start: 0, end: 0 }, run_of))
    }

    pub(super) fn resize(&mut self, number: u32, size: NewSize) -> Result<Run> {
        let slot = self.slot(number)?;
        let run = self.place_of(number)?;
        let limit = match slot {
            Slot::Primary(index) => limit_of(run, self.space().end, self.other_runs(Some(index))),
            Slot::Logical(_) => self.limit_of_logical(run)?,
        };
        let resized = self.placement(Vec::new()).resized(run, size, limit);
        let resized = resized.map_err(|error| self.explain_limit(error))?;
        match slot {
            Slot::Primary(index) if self.extended() == Some(index) => self.check_holds(resized)?,
            Slot::Primary(_) => {}
            Slot::Logical(_) => self.extend_to(resized.end)?,
        }
        if let Some(entry) = self.entry_mut(slot) {
            *entry = with_run(*entry, resized)?;
        }
        Ok(resized)
    }

    pub(super) fn set_type(&mut self, number: u32, type_byte: u8) -> Result<()> {
        let slot = self.slot(number)?;
        if let Some(entry) = self.entry_mut(slot) {
            if is_extended(entry.type_byte) != is_extended(type_byte) {
                return Err(Error::invalid(format!(
                    "cannot change partition {number} from type {:#04x} to {type_byte:#04x}: one \
                     of them is an extended partition",
                    entry.type_byte
                ))
                .with_hint("delete the partition and add another one"));
            }
            entry.type_byte = type_byte;
        }
        Ok(())
    }

    pub(super) fn set_signature(&mut self, signature: u32) {
        self.contents.signature = signature;
    }

    pub(super) fn set_flag(&mut self, number: u32, flag: Flag, set: bool) -> Result<()> {
        check_flag(flag)?;
        let slot = self.slot(number)?;
        if set && matches!(slot, Slot::Logical(_)) {
            return Err(Error::invalid(
                "a BIOS cannot boot from a logical partition",
            ));
        }
        if set {
            self.clear_active();
        }
        if let Some(entry) = self.entry_mut(slot) {
            entry.boot_indicator = if set { 0x80 } else { 0 };
        }
        Ok(())
    }

    /// Clears the boot flag of all primary partitions: only one can have it.
    fn clear_active(&mut self) {
        for entry in &mut self.contents.entries {
            entry.boot_indicator = 0;
        }
    }
}

/// Reads the chain of the only extended partition among `entries`.
fn read_chain(
    device: &dyn BlockRead,
    sector_size: SectorSize,
    entries: &[Entry; 4],
) -> Result<std::result::Result<Option<LogicalChain>, String>> {
    let mut extended = entries
        .iter()
        .filter(|e| e.is_used() && is_extended(e.type_byte));
    match (extended.next(), extended.next()) {
        (None, _) => Ok(Ok(None)),
        (Some(_), Some(_)) => Ok(Err("the disk has more than one".to_owned())),
        (Some(entry), None) => {
            Ok(LogicalChain::read(device, sector_size, run_of(entry))?.map(Some))
        }
    }
}

fn run_of(entry: &Entry) -> Run {
    Run::new(entry.start_sectors.into(), entry.len_sectors.into())
}

/// Returns the entry with other sectors.
fn with_run(entry: Entry, run: Run) -> Result<Entry> {
    let start = u32::try_from(run.start).ok();
    let len = u32::try_from(run.len_sectors()).ok();
    match (start, len) {
        (Some(start_sectors), Some(len_sectors)) if run.end <= MAX_SECTORS => Ok(Entry {
            start_sectors,
            len_sectors,
            ..entry
        }),
        _ => Err(Error::invalid(format!(
            "cannot store {run} in an MBR: its numbers end at {MAX_SECTORS} sectors"
        ))
        .with_hint("use a GPT for disks of more than 2 TiB")),
    }
}

/// Returns the number of the primary partition in entry `index`.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)
}

fn check_flag(flag: Flag) -> Result<()> {
    if flag == Flag::Active {
        return Ok(());
    }
    Err(Error::invalid(format!("an MBR has no flag `{flag}`"))
        .with_hint("its only flag is `active`"))
}

pub(super) fn no_names() -> Error {
    Error::invalid("the partitions of an MBR have no names")
        .with_hint("a filesystem's label can be set instead")
}
