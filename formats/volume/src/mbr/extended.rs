//! Logical partitions: a chain of extended boot records, each with one partition and a link.
//!
//! There is no specification; this follows Linux (`block/partitions/msdos.c`): a record's data
//! entries count from the record, its link counts from the extended partition's start.

use std::collections::HashSet;

use diskfs_block::{BlockRead, Result};

use crate::partition::is_extended;
use crate::sector::Lba;
use crate::warnings::Warnings;
use crate::{Partition, SectorSize};

use super::boot_record::{BootRecord, Entry};
use super::partition;

/// The largest number of records on one disk. Linux allows at most 256 partitions
/// (`DISK_MAX_PARTS`), so a longer chain works nowhere; `fdisk` makes at most 60.
const MAX_RECORDS: usize = 256;

/// The first number of a logical partition; the four before it belong to the MBR's own entries.
const FIRST_NUMBER: u32 = 5;

/// The walk along the chains of a disk's extended partitions. Numbers continue from one to the
/// next.
pub(super) struct Chain<'a> {
    device: &'a dyn BlockRead,
    sector_size: SectorSize,
    disk_signature: u32,
    seen: HashSet<Lba>,
    next_number: u32,
}

/// The extended partition of the current chain.
#[derive(Clone, Copy)]
struct Container {
    number: u32,
    start: Lba,
    len_sectors: u32,
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        device: &'a dyn BlockRead,
        sector_size: SectorSize,
        disk_signature: u32,
    ) -> Self {
        Self {
            device,
            sector_size,
            disk_signature,
            seen: HashSet::new(),
            next_number: FIRST_NUMBER,
        }
    }

    /// Adds the logical partitions of the extended partition `entry` to `partitions`. A fault ends
    /// the chain, with a warning.
    pub(super) fn follow(
        &mut self,
        number: u32,
        entry: Entry,
        partitions: &mut Vec<Partition>,
        warnings: &mut Warnings,
    ) -> Result<()> {
        let container = Container {
            number,
            start: Lba(entry.start_sectors.into()),
            len_sectors: entry.len_sectors,
        };
        let (mut at, mut room) = (container.start, entry.len_sectors);
        loop {
            let record = match self.record(at)? {
                Ok(record) => record,
                Err(why) => {
                    warnings.push(format!(
                        "the chain of logical partitions in partition {number} ends at LBA {at}: \
                         {why}"
                    ));
                    return Ok(());
                }
            };
            self.take_data(at, room, container, &record, partitions, warnings);
            let link = record.entries.iter().find(|e| is_link(e));
            let Some(link) = link else {
                return Ok(());
            };
            at = Lba(container.start.0.saturating_add(link.start_sectors.into()));
            room = link.len_sectors;
        }
    }

    /// Returns the number of the next partition.
    pub(super) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Reads the record at `at`; the inner error is the reason why the chain ends there.
    fn record(&mut self, at: Lba) -> Result<std::result::Result<BootRecord, &'static str>> {
        if self.seen.len() >= MAX_RECORDS {
            return Ok(Err("it has more than 256 records"));
        }
        if !self.seen.insert(at) {
            return Ok(Err("it has a loop"));
        }
        let offset = self.sector_size.offset_of(at)?;
        if offset >= self.device.size_bytes() {
            return Ok(Err("this is past the end of the disk"));
        }
        Ok(BootRecord::read(self.device, offset)?.ok_or("missing extended boot record"))
    }

    fn take_data(
        &mut self,
        at: Lba,
        room: u32,
        container: Container,
        record: &BootRecord,
        partitions: &mut Vec<Partition>,
        warnings: &mut Warnings,
    ) {
        for (index, entry) in record.entries.iter().enumerate() {
            if !entry.is_used() || is_extended(entry.type_byte) {
                continue;
            }
            let start = Lba(at.0.saturating_add(entry.start_sectors.into()));
            let inside = container.holds(start, entry.len_sectors);
            // Nothing uses the last two entries, and on some disks they contain garbage.
            if index >= 2 && !(inside && fits(entry, room)) {
                continue;
            }
            let number = self.next_number;
            self.next_number = number.saturating_add(1);
            if !inside {
                warnings.push(format!(
                    "logical partition {number} (LBA {start}, {} sectors) is not within the \
                     extended partition {}",
                    entry.len_sectors, container.number
                ));
            }
            let mut logical = partition(number, entry, start, self.sector_size);
            logical.disk_signature = self.disk_signature;
            partitions.push(logical);
        }
    }
}

impl Container {
    fn holds(&self, start: Lba, len_sectors: u32) -> bool {
        let end = |start: Lba, len: u32| start.0.saturating_add(len.into());
        start >= self.start && end(start, len_sectors) <= end(self.start, self.len_sectors)
    }
}

fn is_link(entry: &Entry) -> bool {
    entry.is_used() && is_extended(entry.type_byte)
}

/// Returns true if a data entry lies within the `room` sectors that the link to its record
/// specified.
fn fits(entry: &Entry, room: u32) -> bool {
    entry
        .start_sectors
        .checked_add(entry.len_sectors)
        .is_some_and(|end| end <= room)
}
