//! Volume headers of SGI's disks: in the first sector, big-endian.

mod types;
mod volume_header;

use diskfs_block::BlockRead;

pub(crate) use types::type_name;

use crate::check::check;
use crate::partition::Role;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use volume_header::{Entry, VolumeHeader};

/// Reads the table in a disk's first sector; returns `None` if it is not a volume header.
pub(crate) fn table(device: &dyn BlockRead, sector: &[u8]) -> Option<PartitionTable> {
    let header = VolumeHeader::from_sector(sector)?;
    let mut warnings = Warnings::default();
    let used = (1..)
        .zip(&header.partitions)
        .filter(|(_, entry)| entry.len_blocks != 0);
    let mut partitions: Vec<Partition> = used
        .map(|(number, entry)| partition(number, *entry))
        .collect();
    check(&mut partitions, device, SectorSize::B512, &mut warnings);
    Some(PartitionTable {
        kind: TableKind::Sgi,
        sector_size: SectorSize::B512.bytes(),
        disk_id: String::new(),
        partitions,
        warnings: warnings.into_vec(),
    })
}

fn partition(number: u32, entry: Entry) -> Partition {
    let bytes = |blocks: u32| SectorSize::B512.to_bytes(blocks.into()).unwrap_or(u64::MAX);
    Partition {
        number,
        start_bytes: bytes(entry.start_blocks),
        len_bytes: bytes(entry.len_blocks),
        kind: PartitionKind::Sgi {
            type_number: entry.type_number,
        },
        problem: None,
        disk_signature: 0,
        role: match entry.type_number {
            types::VOLUME => Role::Whole,
            _ => Role::Own,
        },
    }
}
