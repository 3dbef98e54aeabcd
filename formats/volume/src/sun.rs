//! Labels of Sun's disks (SMI), of SPARC: in the first sector, big-endian.

mod disk_label;
mod types;

use diskfs_block::BlockRead;

pub(crate) use types::type_name;

use crate::check::check;
use crate::partition::Role;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use disk_label::{DiskLabel, Entry};

/// Reads the table in a disk's first sector; returns `None` if it is not a label.
pub(crate) fn table(device: &dyn BlockRead, sector: &[u8]) -> Option<PartitionTable> {
    let label = DiskLabel::from_sector(sector)?;
    let mut warnings = Warnings::default();
    let used = (1..)
        .zip(&label.partitions)
        .filter(|(_, entry)| entry.len_sectors != 0);
    let mut partitions: Vec<Partition> = used
        .map(|(number, entry)| partition(number, entry, label.cylinder_sectors))
        .collect();
    check(&mut partitions, device, SectorSize::B512, &mut warnings);
    Some(PartitionTable {
        kind: TableKind::Sun,
        sector_size: SectorSize::B512.bytes(),
        disk_id: String::new(),
        partitions,
        warnings: warnings.into_vec(),
    })
}

fn partition(number: u32, entry: &Entry, cylinder_sectors: u32) -> Partition {
    let bytes = |sectors| SectorSize::B512.to_bytes(sectors).unwrap_or(u64::MAX);
    let start = u64::from(entry.start_cylinder).saturating_mul(cylinder_sectors.into());
    Partition {
        number,
        start_bytes: bytes(start),
        len_bytes: bytes(entry.len_sectors.into()),
        kind: PartitionKind::Sun { tag: entry.tag },
        problem: None,
        disk_signature: 0,
        role: match entry.tag {
            types::WHOLE_DISK => Role::Whole,
            _ => Role::Own,
        },
    }
}
