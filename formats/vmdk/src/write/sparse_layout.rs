//! The layout of a sparse image to write.

use std::collections::BTreeMap;

use diskfs_block::bytes::index;
use diskfs_block::{ImageLayout, Result, WriteAt, check_bounds};

use super::descriptor_text::{DESCRIPTOR_SECTORS, descriptor_text};
use super::header::{
    DESCRIPTOR_SECTOR, Fields, TABLE_ENTRIES, TABLE_SECTORS, entries_bytes, header, tables,
};
use super::options::{GRAIN_BYTES, WriteOptions};
use super::stream::entry;
use crate::create_type::CreateType;
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::{HEADER_BYTES, flags};

/// The layout of a sparse image (`monolithicSparse`): header, descriptor, two copies of the tables,
/// grains in the order in which they get their places.
///
/// The tables are kept in memory: 2 KiB for each 32 MiB of the disk with data.
#[derive(Debug)]
pub struct SparseLayout {
    options: WriteOptions,
    plan: Plan,
    /// The byte of the file at which the next grain begins.
    next: u64,
    /// The entries of the tables with grains, by the table's number.
    tables: BTreeMap<u64, Vec<u32>>,
}

/// The places of the structures before the grains, in sectors.
#[derive(Debug, Clone, Copy)]
struct Plan {
    redundant: u64,
    directory: u64,
    grains: u64,
    directory_sectors: u64,
}

impl SparseLayout {
    /// Returns the layout of an image without grains.
    ///
    /// # Errors
    /// `Invalid` for invalid options.
    pub fn new(options: WriteOptions) -> Result<Self> {
        options.check()?;
        let plan = Plan::of(&options);
        Ok(Self {
            next: plan.grains.saturating_mul(SECTOR_BYTES),
            options,
            plan,
            tables: BTreeMap::new(),
        })
    }

    pub(super) const fn capacity_bytes(&self) -> u64 {
        self.options.capacity_bytes
    }

    /// Returns the byte of the file after the last grain.
    pub(super) const fn end(&self) -> u64 {
        self.next
    }

    /// Returns the byte of the file at which a grain begins; `None` if it has no place.
    pub(super) fn place_of(&self, grain: u64) -> Option<u64> {
        let table = self.tables.get(&grain.div_euclid(TABLE_ENTRIES))?;
        let sector = *table.get(index(grain.rem_euclid(TABLE_ENTRIES)))?;
        (sector != 0).then_some(u64::from(sector).saturating_mul(SECTOR_BYTES))
    }

    /// Returns the byte of the file at which a grain begins, which gets a place if it has none.
    pub(super) fn allocate(&mut self, grain: u64) -> Result<u64> {
        if let Some(place) = self.place_of(grain) {
            return Ok(place);
        }
        let place = self.next;
        let sector = entry(place.div_euclid(SECTOR_BYTES))?;
        let new = || vec![0; index(TABLE_ENTRIES)];
        let number = grain.div_euclid(TABLE_ENTRIES);
        let table = self.tables.entry(number).or_insert_with(new);
        if let Some(entry) = table.get_mut(index(grain.rem_euclid(TABLE_ENTRIES))) {
            *entry = sector;
        }
        self.next = place.saturating_add(GRAIN_BYTES);
        Ok(place)
    }

    /// Writes the descriptor, both directories, and both copies of the tables with grains. The
    /// other tables are holes of the file.
    pub(super) fn write_tables(&self, write: &mut WriteAt<'_>) -> Result<()> {
        let text = descriptor_text(&self.options, &CreateType::MonolithicSparse);
        write(DESCRIPTOR_SECTOR.saturating_mul(SECTOR_BYTES), &text)?;
        for start in [self.plan.redundant, self.plan.directory] {
            let first = start.saturating_add(self.plan.directory_sectors);
            let table_sector =
                |table: u64| first.saturating_add(table.saturating_mul(TABLE_SECTORS));
            let entries = (0..tables(&self.options)).map(|it| entry(table_sector(it)));
            let entries: Vec<u32> = entries.collect::<Result<_>>()?;
            write(start.saturating_mul(SECTOR_BYTES), &entries_bytes(&entries))?;
            for (number, entries) in &self.tables {
                let at = table_sector(*number).saturating_mul(SECTOR_BYTES);
                write(at, &entries_bytes(entries))?;
            }
        }
        Ok(())
    }

    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let fields = Fields {
            version: 1,
            flags: flags::NEW_LINE_TEST | flags::REDUNDANT,
            redundant_sector: self.plan.redundant,
            directory_sector: self.plan.directory,
            overhead_sectors: self.plan.grains,
        };
        header(&self.options, fields)
    }
}

impl ImageLayout for SparseLayout {
    fn size_bytes(&self) -> u64 {
        self.options.capacity_bytes
    }

    fn block_bytes(&self) -> u64 {
        GRAIN_BYTES
    }

    fn place(&mut self, offset: u64, _: &mut WriteAt<'_>) -> Result<u64> {
        check_bounds(offset, 1, self.options.capacity_bytes)?;
        let grain = self.allocate(offset.div_euclid(GRAIN_BYTES))?;
        Ok(grain.saturating_add(offset.rem_euclid(GRAIN_BYTES)))
    }

    fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<u64> {
        self.write_tables(write)?;
        write(0, &self.header())?;
        Ok(self.next)
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
}
