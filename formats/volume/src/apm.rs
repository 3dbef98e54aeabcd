//! Apple's partition map (Inside Macintosh: Devices, chapter 3): one entry per block, big-endian.

mod block0;
mod partition_map_entry;
mod types;

use diskfs_block::{BlockRead, Result, read_within};

pub(crate) use types::type_name;

use crate::check::check;
use crate::partition::Role;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use block0::Block0;
use partition_map_entry::MapEntry;

/// The largest number of entries of a map: the limit of Linux, and more than any disk has.
const MAX_ENTRIES: u32 = 256;

/// Reads the table of a disk whose first sector is `sector`; returns `None` if it has no map.
pub(crate) fn table(device: &dyn BlockRead, sector: &[u8]) -> Result<Option<PartitionTable>> {
    let Some(block0) = Block0::from_sector(sector) else {
        return Ok(None);
    };
    let block_bytes = u64::from(block0.block_bytes);
    let mut warnings = Warnings::default();
    let mut partitions = Vec::new();
    let mut count = 1;
    let mut number = 1;
    while number <= count {
        let at = u64::from(number).saturating_mul(block_bytes);
        let block = read_within(device, at, 512)?;
        let Some(entry) = block.as_deref().and_then(MapEntry::from_block) else {
            break;
        };
        if number == 1 {
            count = entry.map_blocks.min(MAX_ENTRIES);
        }
        partitions.push(partition(number, entry, block_bytes));
        number = number.saturating_add(1);
    }
    if partitions.is_empty() {
        return Ok(None);
    }
    if number <= count {
        warnings.push(format!(
            "the partition map ends at entry {number}, which is invalid; expected {count} entries"
        ));
    }
    check(&mut partitions, device, SectorSize::B512, &mut warnings);
    Ok(Some(PartitionTable {
        kind: TableKind::Apple,
        sector_size: block0.block_bytes.into(),
        disk_id: String::new(),
        partitions,
        warnings: warnings.into_vec(),
    }))
}

fn partition(number: u32, entry: MapEntry, block_bytes: u64) -> Partition {
    let bytes = |blocks: u32| u64::from(blocks).saturating_mul(block_bytes);
    // The map itself and free space cannot be opened.
    let is_own = entry.kind != types::MAP && entry.kind != types::FREE;
    Partition {
        number,
        start_bytes: bytes(entry.start_blocks),
        len_bytes: bytes(entry.len_blocks),
        kind: PartitionKind::Apple {
            kind: entry.kind,
            name: entry.name,
        },
        problem: None,
        disk_signature: 0,
        role: if is_own { Role::Own } else { Role::Whole },
    }
}
