//! Partition tables as JSON.

use diskfs::volume::edit::{Flag, FreeSpace};
use diskfs::volume::{Partition, PartitionKind, PartitionTable};
use serde_json::{Value, json};

pub(super) fn table(table: &PartitionTable) -> Value {
    json!({
        "type": table.kind.to_string(),
        "disk_id": table.disk_id,
        "sector_size_bytes": table.sector_size,
        "partitions": table.partitions.iter().map(partition).collect::<Vec<_>>(),
        "warnings": table.warnings,
    })
}

fn partition(partition: &Partition) -> Value {
    json!({
        "volume": format!("p{}", partition.number),
        "number": partition.number,
        "start_bytes": partition.start_bytes,
        "size_bytes": partition.len_bytes,
        "type": partition.type_name(),
        "type_id": type_id(partition),
        "name": partition.name(),
        "uuid": partition.uuid(),
        "flags": flags(partition),
        "problem": partition.problem.map(|problem| problem.to_string()),
    })
}

pub(super) fn free(free: &[FreeSpace]) -> Value {
    let row = |free: &FreeSpace| {
        json!({
            "start_bytes": free.start_bytes,
            "size_bytes": free.len_bytes,
            "logical": free.logical,
        })
    };
    free.iter().map(row).collect()
}

/// Returns the type as it is stored in the table.
fn type_id(partition: &Partition) -> String {
    match &partition.kind {
        PartitionKind::Gpt { type_guid, .. } => type_guid.to_string(),
        PartitionKind::Mbr { type_byte, .. } => format!("0x{type_byte:02x}"),
        PartitionKind::Bsd { fstype } => fstype.to_string(),
        PartitionKind::Sun { tag } => format!("0x{tag:02x}"),
        PartitionKind::Sgi { type_number } => format!("0x{type_number:02x}"),
        PartitionKind::Apple { kind, .. } => kind.clone(),
        _ => String::new(),
    }
}

/// Returns the names of a partition's flags.
pub(super) fn flags(partition: &Partition) -> Vec<String> {
    match &partition.kind {
        PartitionKind::Gpt { attributes, .. } => {
            let flags = Flag::of_attributes(*attributes).into_iter();
            flags.map(|flag| flag.to_string()).collect()
        }
        PartitionKind::Mbr { active: true, .. } => vec![Flag::Active.to_string()],
        _ => Vec::new(),
    }
}
