//! Partition tables.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};
use diskfs_volume::edit::{Flag, NewPartition, NewSize, PartitionType, TableEditor};
use diskfs_volume::{Guid, PartitionKind, SectorSize, read_table, read_table_with};

use crate::labels;

/// The maximum number of bytes that sealing or an edit writes. The entries of a GPT have at most
/// 4 MiB in each copy.
const SEALED_BYTES: u64 = 16 << 20;

/// Reads any partition table, unchanged and with corrected label checksums.
pub(crate) fn mbr(device: &Arc<dyn BlockRead>) {
    follow(device);
    let _ = read_table_with(&**device, SectorSize::B4096);
    let sealed = Overlay::in_memory(Arc::clone(device), SEALED_BYTES);
    labels::seal(&sealed);
    let sealed: Arc<dyn BlockRead> = Arc::new(sealed);
    follow(&sealed);
}

/// Reads a GPT with corrected checksums, which mutations never hit.
pub(crate) fn gpt(device: &Arc<dyn BlockRead>) {
    let size_bytes = device.size_bytes();
    let sealed = Overlay::in_memory(Arc::clone(device), SEALED_BYTES);
    for sector in [512_u64, 4096] {
        for offset in [
            sector,
            (size_bytes / sector)
                .saturating_sub(1)
                .saturating_mul(sector),
        ] {
            // A device that is too small for a header has none to seal.
            let _ = seal(&sealed, offset, sector);
        }
    }
    let _ = sealed.write_at(510, &[0x55, 0xaa]);
    let sealed: Arc<dyn BlockRead> = Arc::new(sealed);
    follow(&sealed);
}

fn follow(device: &Arc<dyn BlockRead>) {
    edit(device);
    let Ok(Some(table)) = read_table(&**device) else {
        return;
    };
    for partition in &table.partitions {
        let _ = (partition.type_name(), partition.uuid(), partition.name());
        if let PartitionKind::Gpt { attributes, .. } = &partition.kind {
            let _ = attributes.to_string();
        }
        // An entry of Apple's map can be empty.
        if let Ok(slice) = partition.open(Arc::clone(device))
            && let Some(last) = slice.size_bytes().checked_sub(1)
        {
            slice
                .read_at(last, &mut [0])
                .expect("the partition can be read");
        }
    }
}

/// Changes the table in each way, in memory, and reads the result.
fn edit(device: &Arc<dyn BlockRead>) {
    let Ok(editor) = TableEditor::read(&**device, None) else {
        return;
    };
    let _ = editor.free_space();
    let new = NewPartition {
        number: None,
        start_bytes: None,
        size_bytes: None,
        partition_type: PartitionType::LINUX,
        name: "x".to_owned(),
        guid: Guid::from_u128(1),
        flags: Vec::new(),
        role: None,
    };
    let write = |edited: &TableEditor| {
        let written = Overlay::in_memory(Arc::clone(device), SEALED_BYTES);
        if edited.write(&written).is_ok() {
            let _ = read_table(&written);
        }
    };
    let mut repaired = editor.clone();
    let _ = repaired.repair();
    write(&repaired);
    for number in [1, 2, 5, 6] {
        let mut edited = editor.clone();
        let _ = edited.shrink(number, 4096);
        let _ = edited.add(&new);
        let _ = edited.grow(number, NewSize::Largest);
        let _ = edited.set_flag(number, Flag::Active, true);
        let _ = edited.set_name(number, "y");
        write(&edited);
        let _ = edited.delete(number);
        write(&edited);
    }
}

/// Corrects the checksums of a header: that of its entries, if their number is sane, and its own.
fn seal(device: &dyn BlockWrite, offset: u64, sector: u64) -> diskfs_block::Result<()> {
    let mut header = vec![0; usize::try_from(sector).unwrap_or(512)];
    device.read_at(offset, &mut header)?;
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let lba = u64::from_le_bytes(header[72..80].try_into().expect("eight bytes"));
    let array_bytes = u64::from(number(80)).saturating_mul(u64::from(number(84)));
    if array_bytes <= 1 << 20 {
        let mut array = vec![0; usize::try_from(array_bytes).unwrap_or(0)];
        if device
            .read_at(lba.saturating_mul(sector), &mut array)
            .is_ok()
        {
            header[88..92].copy_from_slice(&crc32fast::hash(&array).to_le_bytes());
        }
    }
    let size = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
    header[16..20].fill(0);
    if let Some(covered) = header.get(..size) {
        let crc = crc32fast::hash(covered);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
    }
    device.write_at(offset, &header)
}
