//! Master boot records with primary, extended and logical partitions.

pub(crate) mod boot_record;
pub(crate) mod chs;
mod extended;
mod types;

use diskfs_block::{BlockRead, Result};

pub(crate) use boot_record::{BootRecord, Entry};
pub(crate) use types::type_name;

use crate::bsd;
use crate::check::check;
use crate::partition::{Role, is_extended};
use crate::sector::Lba;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use extended::Chain;

/// Returns the table that the boot record in a disk's first sector describes.
pub(crate) fn table(
    device: &dyn BlockRead,
    record: &BootRecord,
    sector_size: SectorSize,
    mut warnings: Warnings,
) -> Result<PartitionTable> {
    let mut partitions = Vec::new();
    let used = || (1..).zip(record.entries).filter(|(_, e)| e.is_used());
    for (number, entry) in used() {
        let start = Lba(entry.start_sectors.into());
        let mut primary = partition(number, &entry, start, sector_size);
        primary.disk_signature = record.disk_signature;
        partitions.push(primary);
    }
    let mut chain = Chain::new(device, sector_size, record.disk_signature);
    for (number, entry) in used().filter(|(_, e)| is_extended(e.type_byte)) {
        chain.follow(number, entry, &mut partitions, &mut warnings)?;
    }
    let mut next = chain.next_number();
    for (number, entry) in used().filter(|(_, e)| bsd::is_slice(e.type_byte)) {
        let inside = bsd::in_slice(device, &slice(&entry), next, &mut warnings)?;
        next = inside
            .last()
            .map_or(next, |last| last.number.saturating_add(1));
        let slice = partitions.iter_mut().find(|p| p.number == number);
        if let Some(slice) = slice.filter(|_| !inside.is_empty()) {
            slice.role = Role::Slice;
        }
        partitions.extend(inside);
    }
    check(&mut partitions, device, sector_size, &mut warnings);
    Ok(PartitionTable {
        kind: TableKind::Mbr,
        sector_size: sector_size.bytes(),
        disk_id: disk_id(record.disk_signature),
        partitions,
        warnings: warnings.into_vec(),
    })
}

/// Returns an entry as a slice that may contain a disklabel.
fn slice(entry: &Entry) -> bsd::Slice {
    bsd::Slice {
        type_byte: entry.type_byte,
        start_sectors: entry.start_sectors,
        len_sectors: entry.len_sectors,
    }
}

/// Formats the disk id as `blkid` prints a PTUUID; empty for a disk without one.
fn disk_id(signature: u32) -> String {
    match signature {
        0 => String::new(),
        _ => format!("{signature:08x}"),
    }
}

fn partition(number: u32, entry: &Entry, start: Lba, sector_size: SectorSize) -> Partition {
    let bytes = |sectors: u64| sector_size.to_bytes(sectors).unwrap_or(u64::MAX);
    Partition {
        number,
        start_bytes: bytes(start.0),
        len_bytes: bytes(entry.len_sectors.into()),
        kind: PartitionKind::Mbr {
            type_byte: entry.type_byte,
            active: entry.boot_indicator == 0x80,
            logical: number > 4,
        },
        problem: None,
        disk_signature: 0,
        role: Role::Own,
    }
}
