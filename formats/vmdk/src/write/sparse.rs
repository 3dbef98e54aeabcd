//! The writer of sparse images.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::bytes::{index, is_zero, len_u64};
use diskfs_block::{BlockWrite, Error, Result, check_bounds};

use super::descriptor_text::{DESCRIPTOR_SECTORS, descriptor_text};
use super::header::{
    DESCRIPTOR_SECTOR, Fields, TABLE_ENTRIES, TABLE_SECTORS, entries_bytes, header, tables,
};
use super::options::{GRAIN_BYTES, WriteOptions};
use crate::create_type::CreateType;
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::flags;

/// The steps in which the file grows.
const GROWTH_BYTES: u64 = 16 << 20;

/// A writer of a sparse image (`monolithicSparse`). Any number of threads can write; grains of
/// zeroes are left out. There is no image before [`finish`](Self::finish): the header is written
/// last.
///
/// The tables are kept in memory: 2 KiB for each 32 MiB of the disk with data.
#[derive(Debug)]
pub struct SparseWriter {
    file: Arc<dyn BlockWrite>,
    options: WriteOptions,
    plan: Plan,
    state: Mutex<State>,
}

/// The places of the structures before the grains, in sectors.
#[derive(Debug, Clone, Copy)]
struct Plan {
    redundant: u64,
    directory: u64,
    grains: u64,
    directory_sectors: u64,
}

#[derive(Debug)]
struct State {
    /// The byte of the file at which the next grain begins.
    next: u64,
    /// The entries of the tables with grains, by the table's number.
    tables: BTreeMap<u64, Vec<u32>>,
}

/// A run of grains with data that belong together in the file, too.
struct Run<'a> {
    place: u64,
    data: &'a [u8],
}

impl SparseWriter {
    /// Begins an image in an empty file.
    ///
    /// # Errors
    /// `Invalid` for invalid options and for a file that is not empty.
    pub fn new(file: Arc<dyn BlockWrite>, options: WriteOptions) -> Result<Self> {
        options.check()?;
        if file.size_bytes() != 0 {
            return Err(Error::invalid("a VMDK is written to an empty file only"));
        }
        let plan = Plan::of(&options);
        let next = plan.grains.saturating_mul(SECTOR_BYTES);
        Ok(Self {
            file,
            options,
            plan,
            state: Mutex::new(State {
                next,
                tables: BTreeMap::new(),
            }),
        })
    }

    /// Writes bytes of the disk: whole grains, except at the end of the disk. A grain can be
    /// written again, but not by two threads at once.
    ///
    /// # Errors
    /// `Invalid` for parts of grains, `OutOfBounds`, the errors of writing.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let len_bytes = len_u64(data.len());
        check_bounds(offset, len_bytes, self.options.capacity_bytes)?;
        let end = offset.saturating_add(len_bytes);
        let is_whole = end.is_multiple_of(GRAIN_BYTES) || end == self.options.capacity_bytes;
        if !offset.is_multiple_of(GRAIN_BYTES) || !is_whole {
            return Err(Error::invalid("a VMDK is written in whole grains of 64 KiB").at(offset));
        }
        for run in self.allocate(offset.div_euclid(GRAIN_BYTES), data)? {
            self.file.write_at(run.place, run.data)?;
        }
        Ok(())
    }

    /// Ends the image: writes the tables, makes everything durable, and then writes the header.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn finish(self) -> Result<()> {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let file = &*self.file;
        // Grains behind the last one were prepared, or there are none at all.
        file.set_size(state.next)?;
        self.plan.write_tables(file, &self.options, &state.tables)?;
        let text = descriptor_text(&self.options, &CreateType::MonolithicSparse);
        file.write_at(DESCRIPTOR_SECTOR.saturating_mul(SECTOR_BYTES), &text)?;
        file.flush()?;
        let fields = Fields {
            version: 1,
            flags: flags::NEW_LINE_TEST | flags::REDUNDANT,
            redundant_sector: self.plan.redundant,
            directory_sector: self.plan.directory,
            overhead_sectors: self.plan.grains,
        };
        file.write_at(0, &header(&self.options, fields))?;
        file.flush()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the places of the grains of `data`, of which the first is `first`, and allocates
    /// those that are new and not zero.
    fn allocate<'a>(&self, first: u64, data: &'a [u8]) -> Result<Vec<Run<'a>>> {
        let mut runs: Vec<Run<'a>> = Vec::new();
        let mut state = self.state();
        let mut at = 0_usize;
        for (grain, part) in (first..).zip(data.chunks(index(GRAIN_BYTES))) {
            let start = at;
            at = at.saturating_add(part.len());
            let Some(place) = state.place(grain, part)? else {
                continue;
            };
            match runs.last_mut() {
                Some(run) if run.reaches(place, part) => {
                    let from = start.saturating_sub(run.data.len());
                    run.data = data.get(from..at).unwrap_or(part);
                }
                _ => runs.push(Run { place, data: part }),
            }
        }
        if state.next > self.file.size_bytes() {
            self.file
                .set_size(state.next.saturating_add(GROWTH_BYTES))?;
        }
        Ok(runs)
    }
}

impl Run<'_> {
    /// Returns true if `part` at `place` of the file follows the run, in the file and in memory.
    fn reaches(&self, place: u64, part: &[u8]) -> bool {
        let end = self.place.saturating_add(len_u64(self.data.len()));
        end == place && self.data.as_ptr_range().end == part.as_ptr()
    }
}

impl State {
    /// Returns the byte of the file for a grain; `None` for a new grain of zeroes.
    fn place(&mut self, grain: u64, data: &[u8]) -> Result<Option<u64>> {
        let number = grain.div_euclid(TABLE_ENTRIES);
        let at = index(grain.rem_euclid(TABLE_ENTRIES));
        let known = self.tables.get(&number).and_then(|it| it.get(at));
        match known {
            Some(sector) if *sector != 0 => {
                return Ok(Some(u64::from(*sector).saturating_mul(SECTOR_BYTES)));
            }
            _ if is_zero(data) => return Ok(None),
            _ => {}
        }
        let place = self.next;
        let sector = super::stream::entry(place.div_euclid(SECTOR_BYTES))?;
        let new = || vec![0; index(TABLE_ENTRIES)];
        let table = self.tables.entry(number).or_insert_with(new);
        if let Some(entry) = table.get_mut(at) {
            *entry = sector;
        }
        self.next = place.saturating_add(GRAIN_BYTES);
        Ok(Some(place))
    }
}

impl Plan {
    /// Plans the places: header, descriptor, the redundant directory with its tables, the
    /// directory with its tables, grains.
    fn of(options: &WriteOptions) -> Self {
        let tables = tables(options);
        let directory_sectors = tables.saturating_mul(4).div_ceil(SECTOR_BYTES);
        let all = directory_sectors.saturating_add(tables.saturating_mul(TABLE_SECTORS));
        let redundant = DESCRIPTOR_SECTOR.saturating_add(DESCRIPTOR_SECTORS);
        let directory = redundant.saturating_add(all);
        Self {
            redundant,
            directory,
            grains: directory
                .saturating_add(all)
                .next_multiple_of(GRAIN_BYTES / SECTOR_BYTES),
            directory_sectors,
        }
    }

    /// Writes both directories, and both copies of the tables with grains. The other tables are
    /// holes of the file.
    fn write_tables(
        &self,
        file: &dyn BlockWrite,
        options: &WriteOptions,
        used: &BTreeMap<u64, Vec<u32>>,
    ) -> Result<()> {
        for start in [self.redundant, self.directory] {
            let first = start.saturating_add(self.directory_sectors);
            let table_sector =
                |table: u64| first.saturating_add(table.saturating_mul(TABLE_SECTORS));
            let entries = (0..tables(options)).map(|it| super::stream::entry(table_sector(it)));
            let entries: Vec<u32> = entries.collect::<Result<_>>()?;
            let at = start.saturating_mul(SECTOR_BYTES);
            file.write_at(at, &entries_bytes(&entries))?;
            for (number, entries) in used {
                let at = table_sector(*number).saturating_mul(SECTOR_BYTES);
                file.write_at(at, &entries_bytes(entries))?;
            }
        }
        Ok(())
    }
}
