//! Reading a disk's partition table of any kind.

use diskfs_block::{BlockRead, Result, read_within};

use crate::mbr::{self, BootRecord};
use crate::warnings::Warnings;
use crate::{PartitionTable, SectorSize, TableKind, apm, boot_sector, bsd, gpt, sgi, sun};

/// Reads the partition table of `device`; returns `None` if it has none.
///
/// A GPT is looked for in sectors of 512 and of 4096 bytes. An MBR does not contain the sector
/// size: 512 bytes are assumed, unless [`read_table_with`] is used.
///
/// # Errors
/// [`ErrorKind::Corrupt`](diskfs_block::ErrorKind::Corrupt) if there is a GPT of which neither copy
/// can be used; read errors of the device.
pub fn read_table(device: &dyn BlockRead) -> Result<Option<PartitionTable>> {
    read(device, &SectorSize::ALL, SectorSize::B512)
}

/// Reads the partition table like [`read_table()`], for a disk with a known `sector_size`.
///
/// # Errors
/// As for [`read_table()`].
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
            gpt::GptSearch::Table(table) => return Ok(Some(with_mbr(table, &record))),
            gpt::GptSearch::Nothing => warnings.push(
                "the MBR protects a GPT, but the GPT is missing at LBA 1 and at the disk's end",
            ),
        }
    } else if boot_sector::is_filesystem(&sector) {
        return Ok(None);
    } else if !flags_are_valid(&record) {
        return without_mbr(device, &sector);
    } else if gpt::has_header(device, gpt_sizes)? {
        warnings.push(
            "there is a GPT header at LBA 1, but no protective MBR; ignoring it as a leftover",
        );
    }
    mbr::table(device, &record, mbr_size, warnings).map(Some)
}

/// Reads the tables of other machines. Each is detected by a magic number, and most by a checksum.
fn without_mbr(device: &dyn BlockRead, sector: &[u8]) -> Result<Option<PartitionTable>> {
    if let Some(table) = sun::table(device, sector).or_else(|| sgi::table(device, sector)) {
        return Ok(Some(table));
    }
    if let Some(table) = apm::table(device, sector)? {
        return Ok(Some(table));
    }
    bsd::table(device)
}

/// Returns true if all boot flags are 0 or 80h. A filesystem's boot sector has code in place of the
/// entries, so that some flag has another value. Linux and `blkid` use the same rule.
fn flags_are_valid(record: &BootRecord) -> bool {
    record.entries.iter().all(mbr::Entry::has_valid_flag)
}

/// Warns of a GPT without a protective MBR. UEFI requires one, and so does Linux by default.
fn warn_of_unprotected_gpt(device: &dyn BlockRead, sizes: &[SectorSize]) -> Result<()> {
    if gpt::has_header(device, sizes)? {
        tracing::warn!("there is a GPT header, but no protective MBR; ignoring it as a leftover");
    }
    Ok(())
}

/// Marks a GPT as hybrid if the MBR has entries besides the protective one.
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
