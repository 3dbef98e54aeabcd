//! Partition tables as text.

use diskfs::volume::edit::FreeSpace;
use diskfs::volume::{Partition, PartitionTable};

use super::super::show::name::message;
use super::super::show::size::units;
use super::super::show::table::{Align, lay_out};
use super::document::flags;

const HEADING: [&str; 7] = ["NUMBER", "START", "SIZE", "TYPE", "NAME", "FLAGS", "UUID"];

const ALIGN: [Align; 7] = [
    Align::Right,
    Align::Right,
    Align::Right,
    Align::Left,
    Align::Left,
    Align::Left,
    Align::Left,
];

/// Formats a table: a line about the disk, then the partitions and the free space in the order of
/// the disk.
pub(super) fn table(table: &PartitionTable, free: &[FreeSpace]) -> String {
    let mut line = table.kind.to_string();
    if !table.disk_id.is_empty() {
        line = format!("{line}, disk {}", table.disk_id);
    }
    line = format!("{line}, sectors of {} bytes\n", table.sector_size);
    let partitions = table.partitions.iter();
    let mut rows: Vec<(u64, Vec<String>)> = partitions
        .map(|partition| (partition.start_bytes, row(partition)))
        .collect();
    rows.extend(free.iter().map(|free| (free.start_bytes, free_row(free))));
    if rows.is_empty() {
        return line;
    }
    rows.sort_by_key(|(start, _)| *start);
    let heading = HEADING.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = [heading]
        .into_iter()
        .chain(rows.into_iter().map(|(_, row)| row))
        .collect();
    line + &lay_out(&ALIGN, &rows)
}

fn row(partition: &Partition) -> Vec<String> {
    let mut kind = partition.type_name().to_owned();
    if let Some(problem) = partition.problem {
        kind = format!("{kind} ({problem})");
    }
    vec![
        partition.number.to_string(),
        units(partition.start_bytes),
        units(partition.len_bytes),
        kind,
        message(partition.name().unwrap_or_default()),
        flags(partition).join(","),
        partition.uuid().unwrap_or_default(),
    ]
}

fn free_row(free: &FreeSpace) -> Vec<String> {
    let kind = if free.logical {
        "free (logical)"
    } else {
        "free"
    };
    vec![
        String::new(),
        units(free.start_bytes),
        units(free.len_bytes),
        kind.to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ]
}

/// Formats a partition in one line.
pub(super) fn partition(partition: &Partition) -> String {
    let (size, start) = (units(partition.len_bytes), units(partition.start_bytes));
    let (number, kind) = (partition.number, partition.type_name());
    let mut line = format!("partition {number}: {size} at {start}, {kind}");
    if let Some(name) = partition.name() {
        line = format!("{line}, name {}", message(name));
    }
    line.push('\n');
    line
}
