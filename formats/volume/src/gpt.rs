//! GUID partition tables. UEFI specification 2.10, section 5.3.
//!
//! There are two copies: the primary from LBA 1 on, the backup at the end of the disk. Each has a
//! header and an entry array with checksums of their own. A copy is used as a whole or not at all.

pub(crate) mod copy;
pub(crate) mod entry;
pub(crate) mod header;
mod types;

use diskfs_block::{BlockRead, Error, Result};

pub(crate) use types::type_name;

use crate::check::check;
use crate::partition::Role;
use crate::sector::Lba;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use copy::{CopyError, TableCopy, last_lba};
use entry::Entry;
use header::Header;

/// The LBA of the primary header, for any sector size.
pub(crate) const PRIMARY: Lba = Lba(1);

/// The result of looking for a GPT.
#[derive(Debug)]
pub(crate) enum GptSearch {
    /// A table, from either copy.
    Table(PartitionTable),
    /// No GPT: neither copy has a header.
    Nothing,
}

/// Reads the GPT in sectors of any of `sizes`, which are tried in order. A valid primary in any
/// size takes precedence over the backup in any other.
///
/// # Errors
/// [`ErrorKind::Corrupt`](diskfs_block::ErrorKind::Corrupt) if there are headers, but neither copy
/// can be used.
pub(crate) fn read(device: &dyn BlockRead, sizes: &[SectorSize]) -> Result<GptSearch> {
    let mut broken = Vec::new();
    for &sector_size in sizes {
        match TableCopy::read(device, PRIMARY, sector_size)? {
            Ok(primary) => {
                let mut warnings = Warnings::default();
                compare_backup(device, &primary, sector_size, &mut warnings)?;
                return Ok(GptSearch::Table(table(
                    device,
                    primary,
                    sector_size,
                    warnings,
                )));
            }
            Err(e) => broken.push((sector_size, e)),
        }
    }
    // The size with a primary header, even a broken one, is more likely the right one.
    broken.sort_by_key(|(_, e)| e.is_absence());
    let mut reasons = Vec::new();
    for (sector_size, primary) in broken {
        match read_backup(device, &primary, sector_size)? {
            Ok(backup) => {
                let mut warnings = Warnings::default();
                warnings.push(format!(
                    "the primary GPT at LBA 1 {primary}; the backup at LBA {} is used",
                    backup.header.my_lba
                ));
                return Ok(GptSearch::Table(table(
                    device,
                    backup,
                    sector_size,
                    warnings,
                )));
            }
            Err(backup) if primary.is_absence() && backup.is_absence() => {}
            Err(backup) => reasons.push((sector_size, primary, backup)),
        }
    }
    match reasons.into_iter().next() {
        None => Ok(GptSearch::Nothing),
        Some((sector_size, primary, backup)) => Err(Error::corrupt(format!(
            "the primary GPT at LBA 1 {primary}, and the backup {backup}"
        ))
        .at(sector_size.offset_of(PRIMARY)?)
        .with_hint("try to repair it with `sgdisk --load-backup` or gdisk's recovery menu")),
    }
}

/// Returns true if there is a header with a correct checksum at LBA 1, in sectors of any of
/// `sizes`.
pub(crate) fn has_header(device: &dyn BlockRead, sizes: &[SectorSize]) -> Result<bool> {
    for &sector_size in sizes {
        if Header::read(device, PRIMARY, sector_size)?.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the backup at the LBA that a usable primary header gives, otherwise at the disk's end.
pub(crate) fn read_backup(
    device: &dyn BlockRead,
    primary: &CopyError,
    sector_size: SectorSize,
) -> Result<std::result::Result<TableCopy, CopyError>> {
    let end = last_lba(device, sector_size);
    if let Some(header) = primary.header()
        && header.alternate_lba != end
        && header.alternate_lba != PRIMARY
        && let Ok(backup) = TableCopy::read(device, header.alternate_lba, sector_size)?
    {
        return Ok(Ok(backup));
    }
    TableCopy::read(device, end, sector_size)
}

/// Adds warnings about the backup if the primary is valid. The backup is not used.
fn compare_backup(
    device: &dyn BlockRead,
    primary: &TableCopy,
    sector_size: SectorSize,
    warnings: &mut Warnings,
) -> Result<()> {
    let at = primary.header.alternate_lba;
    let end = last_lba(device, sector_size);
    if at > end {
        warnings.push(format!(
            "the backup GPT at LBA {at} is past the end of the disk (last LBA {end}): the image \
             was truncated, or is not the whole disk"
        ));
        return Ok(());
    }
    match TableCopy::read(device, at, sector_size)? {
        Err(e) => warnings.push(format!(
            "the backup GPT at LBA {at} {e}; the primary is used"
        )),
        Ok(backup) if !backup.tells_the_same_as(primary) => warnings.push(format!(
            "the backup GPT at LBA {at} differs from the primary, which is used"
        )),
        Ok(_) if at < end => warnings.push(format!(
            "the backup GPT is at LBA {at}, not at the end of the disk (LBA {end}): the disk grew \
             after it was partitioned; move it with `diskfs partition move-backup`"
        )),
        Ok(_) => {}
    }
    Ok(())
}

/// Returns the table that a valid copy describes.
pub(crate) fn table(
    device: &dyn BlockRead,
    copy: TableCopy,
    sector_size: SectorSize,
    mut warnings: Warnings,
) -> PartitionTable {
    /// The only existing revision: 1.0, as major and minor 16-bit numbers.
    const REVISION: u32 = 0x0001_0000;
    let TableCopy {
        header, entries, ..
    } = copy;
    if header.revision != REVISION {
        warnings.push(format!(
            "unknown GPT revision {:#010x}, expected 1.0",
            header.revision
        ));
    }
    let mut partitions = Vec::new();
    for (number, entry) in entries {
        let Some(len_sectors) = entry.len_sectors() else {
            warnings.push(format!(
                "ignoring partition {number}: its first LBA {} is after its last LBA {}",
                entry.first, entry.last
            ));
            continue;
        };
        warn_unless_usable(number, &entry, &header, &mut warnings);
        partitions.push(partition(number, entry, len_sectors, sector_size));
    }
    check(&mut partitions, device, sector_size, &mut warnings);
    PartitionTable {
        kind: TableKind::Gpt,
        sector_size: sector_size.bytes(),
        disk_id: header.disk_guid.to_string(),
        partitions,
        warnings: warnings.into_vec(),
    }
}

fn warn_unless_usable(number: u32, entry: &Entry, header: &Header, warnings: &mut Warnings) {
    if entry.first < header.first_usable_lba || entry.last > header.last_usable_lba {
        warnings.push(format!(
            "partition {number} (LBA {} to {}) is not within the table's usable sectors (LBA {} \
             to {})",
            entry.first, entry.last, header.first_usable_lba, header.last_usable_lba
        ));
    }
}

fn partition(number: u32, entry: Entry, len_sectors: u64, sector_size: SectorSize) -> Partition {
    Partition {
        number,
        start_bytes: sector_size.to_bytes(entry.first.0).unwrap_or(u64::MAX),
        len_bytes: sector_size.to_bytes(len_sectors).unwrap_or(u64::MAX),
        kind: PartitionKind::Gpt {
            type_guid: entry.type_guid,
            guid: entry.guid,
            name: entry.name,
            attributes: entry.attributes,
        },
        problem: None,
        disk_signature: 0,
        role: Role::Own,
    }
}
