//! Disklabels of the BSDs: on a whole disk, and in a slice of an MBR.

mod disklabel;
mod types;

use diskfs_block::{BlockRead, Result};

pub(crate) use types::type_name;

use crate::check::check;
use crate::partition::Role;
use crate::sector::Lba;
use crate::warnings::Warnings;
use crate::{Partition, PartitionKind, PartitionTable, SectorSize, TableKind};

use disklabel::{Disklabel, Entry};

/// The byte offsets of a label: `LABELSECTOR` and `LABELOFFSET` of PCs, and of other machines.
const PLACES: [u64; 2] = [512, 64];

/// The index of the letter for the whole slice, or the whole disk: `c`.
const RAW_PART: usize = 2;

/// The types of slices in FreeBSD, OpenBSD and NetBSD.
const FREEBSD: u8 = 0xa5;
const OPENBSD: u8 = 0xa6;
const NETBSD: u8 = 0xa9;

/// A slice: an MBR entry that may contain a label.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) type_byte: u8,
    pub(crate) start_sectors: u32,
    pub(crate) len_sectors: u32,
}

/// Reads the table of a disk that has only a label.
pub(crate) fn table(device: &dyn BlockRead) -> Result<Option<PartitionTable>> {
    let Some(label) = label(device, 0)? else {
        return Ok(None);
    };
    let disk_sectors = SectorSize::B512.count_on(device);
    let mut warnings = Warnings::default();
    let mut partitions = Vec::new();
    for (number, entry) in (1..).zip(&label.partitions).filter(|(_, e)| e.is_used()) {
        let start = Lba(entry.start_sectors.into());
        let mut partition = partition(number, entry, start);
        if start.0 == 0 && u64::from(entry.len_sectors) >= disk_sectors {
            partition.role = Role::Whole;
        }
        partitions.push(partition);
    }
    check(&mut partitions, device, SectorSize::B512, &mut warnings);
    Ok(Some(PartitionTable {
        kind: TableKind::Bsd,
        sector_size: SectorSize::B512.bytes(),
        disk_id: String::new(),
        partitions,
        warnings: warnings.into_vec(),
    }))
}

/// Returns true if a slice of that type may have a label.
pub(crate) fn is_slice(type_byte: u8) -> bool {
    matches!(type_byte, FREEBSD | OPENBSD | NETBSD)
}

/// Returns the partitions of a slice, without the slice itself. They are numbered from `number` on,
/// as in the kernel: after the logical partitions. The result is empty if the slice has no label.
pub(crate) fn in_slice(
    device: &dyn BlockRead,
    slice: &Slice,
    number: u32,
    warnings: &mut Warnings,
) -> Result<Vec<Partition>> {
    let first = u64::from(slice.start_sectors);
    let Some(at) = SectorSize::B512.to_bytes(first) else {
        return Ok(Vec::new());
    };
    let Some(label) = label(device, at)? else {
        return Ok(Vec::new());
    };
    let end = first.saturating_add(slice.len_sectors.into());
    // FreeBSD counts from the start of the slice, unless `c` gives another start; the others count
    // from the start of the disk.
    let raw = label.partitions.get(RAW_PART);
    let is_relative = slice.type_byte == FREEBSD && raw.is_none_or(|raw| raw.start_sectors == 0);
    let mut partitions: Vec<Partition> = Vec::new();
    for (letter, entry) in ('a'..).zip(&label.partitions).filter(|(_, e)| e.is_used()) {
        let start = u64::from(entry.start_sectors);
        let start = if is_relative {
            start.saturating_add(first)
        } else {
            start
        };
        let behind = start.saturating_add(entry.len_sectors.into());
        if (start, behind) == (first, end) {
            continue;
        }
        if start < first || behind > end {
            warnings.push(format!(
                "ignoring partition {letter} of the BSD disklabel at LBA {first} (LBA {start}, {} \
                 sectors): it is not within its slice",
                entry.len_sectors
            ));
            continue;
        }
        let taken = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        partitions.push(partition(number.saturating_add(taken), entry, Lba(start)));
    }
    Ok(partitions)
}

/// Reads the label of the slice or disk that begins at byte `start`.
fn label(device: &dyn BlockRead, start: u64) -> Result<Option<Disklabel>> {
    for place in PLACES {
        let at = start.saturating_add(place);
        let left = device.size_bytes().saturating_sub(at);
        let len = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(disklabel::LEN_BYTES);
        let mut bytes = vec![0; len];
        if len > 0 {
            device.read_at(at, &mut bytes)?;
        }
        if let Some(label) = Disklabel::from_bytes(&bytes) {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

fn partition(number: u32, entry: &Entry, start: Lba) -> Partition {
    let bytes = |sectors| SectorSize::B512.to_bytes(sectors).unwrap_or(u64::MAX);
    Partition {
        number,
        start_bytes: bytes(start.0),
        len_bytes: bytes(entry.len_sectors.into()),
        kind: PartitionKind::Bsd {
            fstype: entry.fstype,
        },
        problem: None,
        disk_signature: 0,
        role: Role::Own,
    }
}
