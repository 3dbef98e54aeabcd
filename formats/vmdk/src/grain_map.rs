//! The map of a sparse extent: from its bytes to grains of the file.

use std::num::NonZeroU64;
use std::sync::Arc;

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, CompressedUnit, Error, MappedRun, Result, RunStorage};

use crate::entry::Place;
use crate::layout::Layout;
use crate::marker::GRAIN_MARKER_BYTES;
use crate::tables::{TablePart, Tables};

/// The size of a piece of a grain directory that is read at once. Its 1024 entries of 4 bytes
/// cover 32 GiB.
const DIRECTORY_PIECE_BYTES: NonZeroU64 = NonZeroU64::new(4096).unwrap();

/// A sparse extent.
#[derive(Debug)]
pub(crate) struct GrainMap {
    /// The number of the file.
    pub(crate) file: usize,
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) layout: Layout,
}

/// A piece of a grain directory.
struct DirectoryPiece {
    bytes: Arc<[u8]>,
    /// The byte of the file at which it begins.
    start: u64,
    /// The byte of the piece with the entry that was looked for.
    at: usize,
}

/// The run that was looked for: it begins in a grain and is at most `max_len` long.
#[derive(Clone, Copy)]
struct Wanted {
    /// The number of the first grain.
    grain: u64,
    /// The offset in that grain.
    skip_bytes: u64,
    max_len: u64,
}

impl GrainMap {
    /// Opens a sparse extent.
    pub(crate) fn open(file: usize, device: Arc<dyn BlockRead>) -> Result<Self> {
        let layout = Layout::read(&*device)?;
        Ok(Self {
            file,
            device,
            layout,
        })
    }

    /// Returns the run at `offset` of the extent; see [`diskfs_block::ImageMap::run_at`].
    pub(crate) fn run_at(&self, tables: &Tables, offset: u64, max_len: u64) -> Result<MappedRun> {
        let grain = offset / self.layout.grain_bytes;
        let wanted = Wanted {
            grain,
            skip_bytes: offset % self.layout.grain_bytes,
            max_len,
        };
        match self.table(tables, grain / self.layout.table_entries)? {
            Place::At(table) => self.run_in_table(tables, table, wanted),
            place => self.run_without_table(tables, place, wanted),
        }
    }

    /// Returns the place of a grain, if the tables have one at all.
    pub(crate) fn grain(&self, tables: &Tables, grain: u64) -> Result<Place> {
        let number = grain / self.layout.table_entries;
        let Place::At(table) = self.table(tables, number)? else {
            return Ok(Place::Absent);
        };
        let part = self.table_part(table, number);
        let bytes = tables.load(self.file, &*self.device, part)?;
        let at = self.entry_at(grain % self.layout.table_entries);
        self.entry(&bytes, at, part.offset)
    }

    /// Returns the place of a grain table. If the grain directory cannot be read or has an invalid
    /// entry, the redundant one is used.
    fn table(&self, tables: &Tables, number: u64) -> Result<Place> {
        let mut first_error = None;
        for directory in &self.layout.directories {
            match self.table_of(tables, *directory, number) {
                Ok(place) => return Ok(place),
                Err(e) => drop(first_error.get_or_insert(e)),
            }
        }
        Err(first_error.unwrap_or_else(|| Error::invalid("grain outside of the extent")))
    }

    fn table_of(&self, tables: &Tables, directory: u64, number: u64) -> Result<Place> {
        let piece = self.directory_piece(tables, directory, number)?;
        let place = self.layout.entries.table_place(&piece.bytes, piece.at);
        let len_bytes = self.layout.table_bytes(number);
        let is_inside = |start: u64| {
            let end = start.checked_add(len_bytes);
            end.is_some_and(|end| end <= self.device.size_bytes())
        };
        match place {
            Some(Place::At(start)) if !is_inside(start) => None,
            place => place,
        }
        .ok_or_else(|| {
            let reason = "invalid grain directory entry: no grain table within the file";
            Error::corrupt(reason).at(entry_offset(piece.start, piece.at))
        })
    }

    /// Reads the piece of a grain directory with the entry of a table.
    fn directory_piece(&self, tables: &Tables, start: u64, table: u64) -> Result<DirectoryPiece> {
        let at = table.saturating_mul(self.layout.entries.entry_bytes());
        let skip_bytes = at % DIRECTORY_PIECE_BYTES;
        let first = at.saturating_sub(skip_bytes);
        let left = self.layout.directory_bytes().saturating_sub(first);
        let part = TablePart {
            offset: start.saturating_add(first),
            len_bytes: left.min(DIRECTORY_PIECE_BYTES.get()),
        };
        Ok(DirectoryPiece {
            bytes: tables.load(self.file, &*self.device, part)?,
            start: part.offset,
            at: index(skip_bytes),
        })
    }

    fn table_part(&self, offset: u64, number: u64) -> TablePart {
        TablePart {
            offset,
            len_bytes: self.layout.table_bytes(number),
        }
    }

    /// Returns the byte of a table at which an entry begins.
    fn entry_at(&self, entry: u64) -> usize {
        index(entry.saturating_mul(self.layout.entries.entry_bytes()))
    }

    fn entry(&self, table: &[u8], at: usize, start: u64) -> Result<Place> {
        let place = self.layout.entries.grain_place(table, at);
        place.ok_or_else(|| Error::corrupt("invalid grain table entry").at(entry_offset(start, at)))
    }

    /// Returns the run of grains that have no table: up to the first table of the same piece of
    /// the directory.
    fn run_without_table(
        &self,
        tables: &Tables,
        place: Place,
        wanted: Wanted,
    ) -> Result<MappedRun> {
        let entries = self.layout.table_entries;
        let number = wanted.grain / entries;
        // Only the first directory is asked about more tables: what it lacks ends the run.
        let start = self.layout.directories.first().copied().unwrap_or(0);
        let piece = self.directory_piece(tables, start, number)?;
        let step = index(self.layout.entries.entry_bytes());
        let count = (piece.at..piece.bytes.len())
            .step_by(step.max(1))
            .take_while(|at| self.layout.entries.table_place(&piece.bytes, *at) == Some(place))
            .count()
            .max(1);
        let count = u64::try_from(count).unwrap_or(1);
        let grains = count
            .saturating_mul(entries.get())
            .saturating_sub(wanted.grain % entries);
        let storage = match place {
            Place::Zero => RunStorage::Zero,
            _ => RunStorage::Absent,
        };
        Ok(self.run(wanted, grains, storage))
    }

    fn run_in_table(&self, tables: &Tables, table: u64, wanted: Wanted) -> Result<MappedRun> {
        let entries = self.layout.table_entries;
        let part = self.table_part(table, wanted.grain / entries);
        let bytes = tables.load(self.file, &*self.device, part)?;
        let at = self.entry_at(wanted.grain % entries);
        let first = self.entry(&bytes, at, part.offset)?;
        let Place::At(place) = first else {
            let grains = self.count_equal(&bytes, at, wanted, |_| Some(first));
            let storage = match first {
                Place::Zero => RunStorage::Zero,
                _ => RunStorage::Absent,
            };
            return Ok(self.run(wanted, grains, storage));
        };
        if place >= self.device.size_bytes() {
            let reason = "grain past the end of the file; the file may be truncated";
            return Err(Error::corrupt(reason).at(entry_offset(part.offset, at)));
        }
        if self.layout.compression.is_some() {
            return Ok(self.compressed(wanted, place));
        }
        let grains = self.count_equal(&bytes, at, wanted, |number| {
            let distance = self.layout.grain_bytes.get().checked_mul(number)?;
            place.checked_add(distance).map(Place::At)
        });
        Ok(self.stored(wanted, place, grains))
    }

    /// Counts the entries from `at` on that are as `expected` of their distance, as far as the run
    /// that is wanted needs them.
    fn count_equal(
        &self,
        table: &[u8],
        at: usize,
        wanted: Wanted,
        expected: impl Fn(u64) -> Option<Place>,
    ) -> u64 {
        let needed = wanted.skip_bytes.saturating_add(wanted.max_len);
        let needed = needed.div_ceil(self.layout.grain_bytes.get());
        let step = self.layout.entries.entry_bytes();
        let is_equal = |distance: &u64| {
            let at = index(distance.saturating_mul(step)).checked_add(at);
            let place = at.and_then(|at| self.layout.entries.grain_place(table, at));
            place.is_some() && place == expected(*distance)
        };
        let more = (1..needed).take_while(is_equal).count();
        u64::try_from(more).unwrap_or(0).saturating_add(1)
    }

    /// Returns a run of a number of grains.
    fn run(&self, wanted: Wanted, grains: u64, storage: RunStorage) -> MappedRun {
        let len_bytes = grains
            .saturating_mul(self.layout.grain_bytes.get())
            .saturating_sub(wanted.skip_bytes);
        MappedRun {
            len_bytes: len_bytes.min(wanted.max_len),
            storage,
        }
    }

    /// Returns a run of stored grains. A file that ends within a grain has zeroes from there on:
    /// QEMU writes only the needed part of the last grain.
    fn stored(&self, wanted: Wanted, place: u64, grains: u64) -> MappedRun {
        let start = place.saturating_add(wanted.skip_bytes);
        let left = self.device.size_bytes().saturating_sub(start);
        if left == 0 {
            return self.run(wanted, 1, RunStorage::Zero);
        }
        let storage = RunStorage::Stored {
            file: self.file,
            offset: start,
        };
        let run = self.run(wanted, grains, storage);
        MappedRun {
            len_bytes: run.len_bytes.min(left),
            ..run
        }
    }

    fn compressed(&self, wanted: Wanted, place: u64) -> MappedRun {
        let grain_bytes = self.layout.grain_bytes.get();
        let start = wanted.grain.saturating_mul(grain_bytes);
        let left = self.device.size_bytes().saturating_sub(place);
        let unit = CompressedUnit {
            file: self.file,
            offset: place,
            stored_bytes: max_stored_bytes(grain_bytes).min(left),
            unpacked_bytes: self
                .layout
                .capacity_bytes
                .saturating_sub(start)
                .min(grain_bytes),
        };
        let storage = RunStorage::Compressed {
            unit,
            skip_bytes: wanted.skip_bytes,
        };
        self.run(wanted, 1, storage)
    }
}

/// Returns the most bytes of a compressed grain with its marker: two grains of data, QEMU's limit.
pub(crate) fn max_stored_bytes(grain_bytes: u64) -> u64 {
    let marker = u64::try_from(GRAIN_MARKER_BYTES).unwrap_or(0);
    grain_bytes.saturating_mul(2).saturating_add(marker)
}

/// Returns the byte of the file with an entry.
fn entry_offset(start: u64, at: usize) -> u64 {
    start.saturating_add(u64::try_from(at).unwrap_or(0))
}
