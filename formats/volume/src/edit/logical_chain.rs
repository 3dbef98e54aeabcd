//! The chain of extended boot records, as an editor changes it.
//!
//! Each record has one logical partition and a link to the next record. The first one is in the
//! first sector of the extended partition and may have no partition. Linux (`block/partitions/
//! msdos.c`) is the reference: a record's partition counts from the record, its link from the start
//! of the extended partition.

use std::collections::HashSet;

use diskfs_block::{BlockRead, Result};

use crate::SectorSize;
use crate::mbr::boot_record::{LEN_BYTES, set_entry, sign};
use crate::mbr::{BootRecord, Entry};
use crate::partition::is_extended;

use super::plan::PlannedWrite;
use super::run::Run;

/// The largest number of records, which is the kernel's limit of partitions.
const MAX_RECORDS: usize = 256;

/// The type of links.
const LINK: u8 = 0x05;

/// The records of an extended partition in the order of the chain. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogicalChain {
    /// The first LBA of the extended partition.
    pub(super) start: u32,
    pub(super) records: Vec<ExtendedRecord>,
}

/// An extended boot record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExtendedRecord {
    pub(super) lba: u32,
    /// The logical partition, whose start counts from the start of the disk.
    pub(super) partition: Option<Entry>,
    /// The sector as it was read; zeroes for a new one, and in place of one without a signature.
    sector: [u8; LEN_BYTES],
}

impl ExtendedRecord {
    pub(super) fn new(lba: u32, partition: Option<Entry>) -> Self {
        Self {
            lba,
            partition,
            sector: [0; LEN_BYTES],
        }
    }

    /// Returns the sectors of the partition.
    pub(super) fn run(&self) -> Option<Run> {
        let partition = self.partition.as_ref()?;
        Some(Run::new(
            partition.start_sectors.into(),
            partition.len_sectors.into(),
        ))
    }

    /// Returns the link to this record from the one before it.
    fn link(&self, chain_start: u32) -> Entry {
        let end = self.run().map_or(0, |run| run.end);
        let len = end.saturating_sub(self.lba.into()).max(1);
        Entry {
            type_byte: LINK,
            start_sectors: self.lba.saturating_sub(chain_start),
            len_sectors: u32::try_from(len).unwrap_or(u32::MAX),
            ..Entry::UNUSED
        }
    }
}

impl LogicalChain {
    /// Reads the chain of the extended partition with the sectors `extended`. The inner error is
    /// the reason why the chain cannot be edited.
    pub(super) fn read(
        device: &dyn BlockRead,
        sector_size: SectorSize,
        extended: Run,
    ) -> Result<std::result::Result<Self, String>> {
        let Ok(start) = u32::try_from(extended.start) else {
            return Ok(Err("its start is past 32 bits".to_owned()));
        };
        let mut records: Vec<ExtendedRecord> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(start);
        while let Some(lba) = next {
            if records.len() >= MAX_RECORDS || !seen.insert(lba) {
                return Ok(Err("it has a loop, or more than 256 records".to_owned()));
            }
            if !extended.contains(lba.into()) {
                return Ok(Err(format!("the record at LBA {lba} is outside of it")));
            }
            let parsed = read_record(device, sector_size, lba)?;
            let (record, link) = match parsed {
                Ok(parsed) => parsed,
                // Some tools leave the first sector of an empty extended partition as it is.
                Err(_) if lba == start => (ExtendedRecord::new(lba, None), None),
                Err(reason) => return Ok(Err(format!("the record at LBA {lba} {reason}"))),
            };
            if record.run().is_some_and(|run| !extended.holds(run)) {
                return Ok(Err(format!(
                    "the partition of the record at LBA {lba} is outside of it"
                )));
            }
            records.push(record);
            next = link.map(|link| start.saturating_add(link.start_sectors));
        }
        Ok(Ok(Self { start, records }))
    }

    /// Returns the chain of a new extended partition.
    pub(super) fn new(start: u32) -> Self {
        Self {
            start,
            records: vec![ExtendedRecord::new(start, None)],
        }
    }

    /// Returns the indices of the records with a partition, in the order of the partitions'
    /// numbers.
    pub(super) fn with_partition(&self) -> impl Iterator<Item = usize> {
        let records = self.records.iter().enumerate();
        records.filter_map(|(index, record)| record.partition.map(|_| index))
    }

    /// Returns the runs of the records and of their partitions.
    pub(super) fn used(&self) -> impl Iterator<Item = Run> {
        self.records.iter().flat_map(|record| {
            let own = Run::new(record.lba.into(), 1);
            [own].into_iter().chain(record.run())
        })
    }

    /// Removes the partition of record `index`. A first record takes over the partition of the
    /// second, so that one sector changes in either case.
    pub(super) fn remove(&mut self, index: usize) {
        if index > 0 {
            self.records.remove(index);
            return;
        }
        let second = (self.records.len() > 1).then(|| self.records.remove(1));
        if let Some(first) = self.records.first_mut() {
            first.partition = second.and_then(|record| record.partition);
        }
    }

    /// Returns the records to write, without those that are the same in `old`: the first list is of
    /// records that `old` does not reach, the second of the others, from the last to the first.
    pub(super) fn writes(
        &self,
        old: Option<&Self>,
        sector_size: SectorSize,
    ) -> [Vec<PlannedWrite>; 2] {
        let is_old = |lba: u32| old.is_some_and(|old| old.records.iter().any(|r| r.lba == lba));
        let [mut unlinked, mut linked] = [Vec::new(), Vec::new()];
        for (index, record) in self.records.iter().enumerate().rev() {
            let next = self.records.get(index.saturating_add(1));
            if old.is_some_and(|old| old.has_same(record, next)) {
                continue;
            }
            let write = PlannedWrite {
                offset: sector_size.to_bytes(record.lba.into()).unwrap_or(u64::MAX),
                bytes: self.sector(record, next).to_vec(),
            };
            if is_old(record.lba) {
                linked.push(write);
            } else {
                unlinked.push(write);
            }
        }
        [unlinked, linked]
    }

    /// Returns the bytes of a record. Entries that did not change keep their bytes.
    fn sector(&self, record: &ExtendedRecord, next: Option<&ExtendedRecord>) -> [u8; LEN_BYTES] {
        let mut sector = record.sector;
        sign(&mut sector);
        let relative = |entry: Entry| Entry {
            start_sectors: entry.start_sectors.saturating_sub(record.lba),
            ..entry
        };
        let partition = record.partition.map_or(Entry::UNUSED, relative);
        let link = next.map_or(Entry::UNUSED, |next| next.link(self.start));
        set_entry(&mut sector, 0, &partition, record.lba);
        set_entry(&mut sector, 1, &link, self.start);
        sector
    }

    /// Returns true if this chain has the same record before the same next one.
    fn has_same(&self, record: &ExtendedRecord, next: Option<&ExtendedRecord>) -> bool {
        let own = self.records.iter().position(|own| own == record);
        own.is_some_and(|index| self.records.get(index.saturating_add(1)) == next)
    }
}

/// Reads the record at `lba`, with its link. The inner error is the reason why it cannot be edited.
#[allow(
    clippy::type_complexity,
    reason = "two results, of the device and of the record"
)]
fn read_record(
    device: &dyn BlockRead,
    sector_size: SectorSize,
    lba: u32,
) -> Result<std::result::Result<(ExtendedRecord, Option<Entry>), &'static str>> {
    let offset = sector_size.to_bytes(lba.into()).unwrap_or(u64::MAX);
    let Some(bytes) = diskfs_block::read_within(device, offset, LEN_BYTES)? else {
        return Ok(Err("is past the end of the disk"));
    };
    let Some(parsed) = BootRecord::from_sector(&bytes) else {
        return Ok(Err("has no signature 55 AA"));
    };
    let used = || {
        parsed
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| e.is_used())
    };
    let mut partitions = used().filter(|(_, e)| !is_extended(e.type_byte));
    let mut links = used().filter(|(_, e)| is_extended(e.type_byte));
    let (partition, link) = (partitions.next(), links.next());
    let unusual = partitions.next().is_some()
        || links.next().is_some()
        || partition.is_some_and(|(index, _)| index != 0)
        || link.is_some_and(|(index, _)| index != 1);
    if unusual {
        return Ok(Err(
            "has more than one partition or link, or in unusual entries",
        ));
    }
    let mut sector = [0; LEN_BYTES];
    sector.copy_from_slice(&bytes);
    let absolute = |entry: &Entry| Entry {
        start_sectors: lba.saturating_add(entry.start_sectors),
        ..*entry
    };
    let record = ExtendedRecord {
        lba,
        partition: partition.map(|(_, entry)| absolute(entry)),
        sector,
    };
    Ok(Ok((record, link.map(|(_, entry)| *entry))))
}
