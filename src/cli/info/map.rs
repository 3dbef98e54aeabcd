//! The picture of `info --map`: to scale, what each file of an image stores of its disk, and where
//! the partitions are.

use std::fmt::Write as _;
use std::ops::Range;

use diskfs::image::{Description, MapEntry};
use diskfs::volume::Partition;
use diskfs::{Disk, Result};

use crate::cli::show::bar::shade;
use crate::cli::show::coloured;
use crate::cli::show::name::text as safe;
use crate::cli::show::size::units;

/// The width of the disk.
const CELLS: usize = 64;

/// The number of files of a chain with a row of their own; those below share the last one.
const FILES_MAX: usize = 8;

/// The colours of partitions in turn: the numbers of terminals for foreground colours.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// Draws the map of a disk; `None` if the disk is not read from an image.
///
/// # Errors
/// The errors of reading the image's tables.
pub(super) fn map(disk: &Disk, has_colours: bool) -> Result<Option<String>> {
    let Some(image) = disk.image() else {
        return Ok(None);
    };
    let scale = Scale {
        size_bytes: disk.description().virtual_size_bytes,
    };
    let mut stored = Stored::default();
    for entry in image.map() {
        stored.add(scale, &entry?);
    }
    let mut out = scale.ruler();
    out.push_str(&stored.rows(scale, &names(disk.description())));
    // An error of the table is reported with the volumes.
    if let Ok(Some(table)) = disk.partition_table() {
        let line = Line::of(scale, &table.partitions);
        let _ = writeln!(out, "{}", line.text(has_colours)); // Writing to a String cannot fail.
    }
    Ok(Some(out))
}

/// Returns the names of the files of a chain, without their directories.
fn names(top: &Description) -> Vec<String> {
    let chain = std::iter::successors(Some(top), |image| image.backing.as_deref());
    let name = |image: &Description| {
        let name = image.path.file_name().unwrap_or(image.path.as_os_str());
        safe(name.as_encoded_bytes())
    };
    chain.take(FILES_MAX).map(name).collect()
}

/// The scale of a map.
#[derive(Debug, Clone, Copy)]
struct Scale {
    size_bytes: u64,
}

impl Scale {
    /// Returns the offset at which a cell begins.
    fn offset(self, cell: usize) -> u64 {
        let cells = u128::try_from(CELLS).unwrap_or(1);
        let offset = u128::from(self.size_bytes) * u128::try_from(cell).unwrap_or(0) / cells;
        u64::try_from(offset).unwrap_or(u64::MAX)
    }

    /// Returns the cell that contains an offset; the last one for those behind the end.
    fn cell(self, offset: u64) -> usize {
        let cells = u128::try_from(CELLS).unwrap_or(1);
        let cell = u128::from(offset) * cells;
        let cell = cell.checked_div(u128::from(self.size_bytes)).unwrap_or(0);
        usize::try_from(cell).unwrap_or(CELLS).min(CELLS - 1)
    }

    fn ruler(self) -> String {
        let size = units(self.size_bytes);
        let width = CELLS.saturating_sub(1);
        format!("0{size:>width$}\n")
    }
}

/// The bytes of each cell that each file of the chain stores.
#[derive(Debug, Default)]
struct Stored {
    files: Vec<[u64; CELLS]>,
}

impl Stored {
    fn add(&mut self, scale: Scale, entry: &MapEntry) {
        let depth = usize::try_from(entry.depth).unwrap_or(FILES_MAX);
        let file = depth.min(FILES_MAX - 1);
        let is_stored = entry.data && !entry.zero || entry.compressed;
        if !is_stored || entry.len_bytes == 0 {
            return;
        }
        if self.files.len() <= file {
            self.files.resize(file + 1, [0; CELLS]);
        }
        let end = entry.start.saturating_add(entry.len_bytes);
        for cell in scale.cell(entry.start)..=scale.cell(end - 1) {
            let from = entry.start.max(scale.offset(cell));
            let to = end.min(scale.offset(cell + 1));
            let bytes = &mut self.files[file][cell];
            *bytes = bytes.saturating_add(to.saturating_sub(from));
        }
    }

    fn rows(&self, scale: Scale, names: &[String]) -> String {
        let mut out = String::new();
        for (file, name) in names.iter().enumerate() {
            let stored = self.files.get(file).unwrap_or(&[0; CELLS]);
            let cells = stored
                .iter()
                .enumerate()
                .map(|(cell, &bytes)| shade(bytes, scale.offset(cell + 1) - scale.offset(cell)));
            out.extend(cells);
            let _ = writeln!(out, "  {name}"); // Writing to a String cannot fail.
        }
        out
    }
}

/// The line of partitions: each has cells of its own, at least one.
#[derive(Debug)]
struct Line {
    parts: Vec<(Range<usize>, String)>,
}

impl Line {
    fn of(scale: Scale, partitions: &[Partition]) -> Self {
        let mut sorted: Vec<_> = partitions
            .iter()
            .filter(|partition| partition.start_bytes < scale.size_bytes)
            .collect();
        sorted.sort_by_key(|partition| partition.start_bytes);
        let (mut parts, mut free) = (Vec::new(), 0);
        for partition in sorted {
            let end = partition.start_bytes.saturating_add(partition.len_bytes);
            let from = scale.cell(partition.start_bytes).max(free);
            let to = scale.cell(end.saturating_sub(1)).max(from) + 1;
            if to > CELLS {
                break;
            }
            parts.push((from..to, format!("p{}", partition.number)));
            free = to;
        }
        Self { parts }
    }

    fn text(&self, has_colours: bool) -> String {
        let (mut out, mut at) = (String::new(), 0);
        for ((cells, name), colour) in self.parts.iter().zip(COLOURS.iter().cycle()) {
            out.extend(std::iter::repeat_n(' ', cells.start - at));
            let part = bracket(cells.len(), name);
            if has_colours {
                out.push_str(&coloured(&part, *colour));
            } else {
                out.push_str(&part);
            }
            at = cells.end;
        }
        out
    }
}

/// Draws a bracket of this width below a partition, with its name if there is room.
fn bracket(width: usize, name: &str) -> String {
    match width.checked_sub(2) {
        None => "\u{2502}".to_owned(),
        Some(inner) if inner < name.chars().count() => {
            format!("\u{2514}{}\u{2518}", "\u{2500}".repeat(inner))
        }
        Some(inner) => format!("\u{2514}{name:\u{2500}^inner$}\u{2518}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: u64, len_bytes: u64, depth: u32) -> MapEntry {
        MapEntry {
            start,
            len_bytes,
            depth,
            present: true,
            zero: false,
            data: true,
            compressed: false,
            host_offset: Some(0),
        }
    }

    #[test]
    fn cells_have_the_shades_of_what_is_stored() {
        let scale = Scale { size_bytes: 6400 };
        let mut stored = Stored::default();
        stored.add(scale, &entry(0, 150, 0));
        stored.add(scale, &entry(6399, 1, 1));
        let rows = stored.rows(scale, &["top".to_owned(), "base".to_owned()]);
        let dots = |count| "\u{b7}".repeat(count);
        let expected = [
            format!("\u{2588}\u{2592}{}  top", dots(62)),
            format!("{}\u{2591}  base", dots(63)),
        ];
        assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_offset_has_a_cell() {
        for size_bytes in [0, 1, 63, 64, 65, 1 << 40, u64::MAX] {
            let scale = Scale { size_bytes };
            assert_eq!(scale.offset(CELLS), size_bytes);
            for offset in [0, size_bytes / 2, size_bytes, u64::MAX] {
                assert!(scale.cell(offset) < CELLS, "{offset} of {size_bytes}");
            }
            let mut stored = Stored::default();
            stored.add(scale, &entry(0, size_bytes, 200));
            stored.add(scale, &entry(u64::MAX, 1, 0));
            let _ = stored.rows(scale, &[String::new()]);
        }
    }

    #[test]
    fn brackets_have_names_where_there_is_room() {
        assert_eq!(bracket(1, "p1"), "\u{2502}");
        assert_eq!(bracket(3, "p1"), "\u{2514}\u{2500}\u{2518}");
        assert_eq!(bracket(4, "p1"), "\u{2514}p1\u{2518}");
        assert_eq!(bracket(6, "p1"), "\u{2514}\u{2500}p1\u{2500}\u{2518}");
    }
}
