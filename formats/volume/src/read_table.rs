//! Reading a disk's partition table, of whichever kind.

use diskfs_block::{BlockRead, Result, read_within};

use crate::mbr::{self, BootRecord};
use crate::warnings::Warnings;
use crate::{PartitionTable, SectorSize, TableKind, apm, boot_sector, bsd, gpt, sgi, sun};

/// The partition table of `device`, or `None` when it has none.
///
/// A GPT is looked for in sectors of 512 and of 4096 bytes. An MBR does not show the size of a
/// sector: 512 bytes are taken, unless [`read_table_with`] says otherwise.
///
/// # Errors
/// [`ErrorKind::Corrupt`](diskfs_block::ErrorKind::Corrupt) when there is a GPT of which neither
/// copy can be used; what the device answers when it cannot be read.
pub fn read_table(device: &dyn BlockRead) -> Result<Option<PartitionTable>> {
    read(device, &SectorSize::ALL, SectorSize::B512)
}

/// As [`read_table()`], for a disk whose sectors are known to be of `sector_size`.
///
/// # Errors
/// As [`read_table()`].
pub fn read_table_with(
    device: &dyn BlockRead,
    sector_size: SectorSize,
) -> Result<Option<PartitionTable>> {
    read(device, &[sector_size], sector_size)
}

fn read(
    device: &dyn BlockRead,
    gpt_sizes: &[SectorSize],
    mbr_size: SectorSize,
) -> Result<Option<PartitionTable>> {
    let Some(sector) = read_within(device, 0, 512)? else {
        return Ok(None);
    };
    let Some(record) = BootRecord::from_sector(&sector) else {
        warn_of_unprotected_gpt(device, gpt_sizes)?;
        return without_mbr(device, &sector);
    };
    let mut warnings = Warnings::default();
    if record.entries.iter().any(mbr::Entry::is_protective) {
        match gpt::read(device, gpt_sizes)? {
            gpt::Found::Table(table) => return Ok(Some(with_mbr(table, &record))),
            gpt::Found::Nothing => warnings.push(
                "the MBR protects a GPT, but there is none, neither at LBA 1 nor at the disk's end",
            ),
        }
    } else if boot_sector::is_filesystem(&sector) {
        return Ok(None);
    } else if !flags_are_valid(&record) {
        return without_mbr(device, &sector);
    } else if gpt::has_header(device, gpt_sizes)? {
        warnings.push(
            "there is a GPT header at LBA 1, but no protective MBR: it is taken for a leftover",
        );
    }
    mbr::table(device, &record, mbr_size, warnings).map(Some)
}

/// The tables of other machines, of which each is told by a magic number and most by a checksum.
fn without_mbr(device: &dyn BlockRead, sector: &[u8]) -> Result<Option<PartitionTable>> {
    if let Some(table) = sun::table(device, sector).or_else(|| sgi::table(device, sector)) {
        return Ok(Some(table));
    }
    if let Some(table) = apm::table(device, sector)? {
        return Ok(Some(table));
    }
    bsd::table(device)
}

/// A boot sector of a filesystem has code where the entries would be, so that some flag is neither
/// 0 nor 80h. Linux and `blkid` go by the same rule.
fn flags_are_valid(record: &BootRecord) -> bool {
    record.entries.iter().all(mbr::Entry::has_valid_flag)
}

/// UEFI wants a protective MBR before it believes a GPT, and so does Linux unless told otherwise.
fn warn_of_unprotected_gpt(device: &dyn BlockRead, sizes: &[SectorSize]) -> Result<()> {
    if gpt::has_header(device, sizes)? {
        tracing::warn!("there is a GPT header, but no protective MBR: it is taken for a leftover");
    }
    Ok(())
}

/// A GPT, told by what stands beside the protective entry.
fn with_mbr(mut table: PartitionTable, record: &BootRecord) -> PartitionTable {
    let others: Vec<String> = (1..)
        .zip(&record.entries)
        .filter(|(_, e)| e.is_used() && !e.is_protective())
        .map(|(number, e)| {
            let name = mbr::type_name(e.type_byte).unwrap_or("unknown");
            format!(
                "{number} (type {:#04x} {name}, LBA {}, {} sectors)",
                e.type_byte, e.start_sectors, e.len_sectors
            )
        })
        .collect();
    if !others.is_empty() {
        table.kind = TableKind::HybridMbr;
        table.warnings.push(format!(
            "hybrid MBR: the GPT is used; the MBR also has {}",
            others.join(", ")
        ));
    }
    table
}
