//! The writer of stream-optimised images.

use std::fmt;
use std::io::Write;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, Result};

use super::descriptor_text::descriptor_text;
use super::header::{Fields, TABLE_ENTRIES, entries_bytes, header, tables};
use super::options::{GRAIN_BYTES, WriteOptions};
use crate::create_type::CreateType;
use crate::grain_map::max_stored_bytes;
use crate::marker::{Marker, MetadataType};
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::{GD_AT_END, flags};

/// The sector at which the grains begin, as VMware writes streams: a whole grain.
const FIRST_SECTOR: u64 = 128;

/// Zeroes to fill up sectors.
static ZEROES: [u8; 512] = [0; 512];

/// A writer of a stream-optimised image: header, descriptor, compressed grains with their tables,
/// grain directory, footer. Nothing that was written is changed later, so the output can be a pipe.
///
/// The same options and grains make the same bytes.
pub struct StreamWriter<W: Write> {
    out: W,
    options: WriteOptions,
    /// The sector at which the next marker begins.
    sector: u64,
    /// The first grain that may be written next.
    next_grain: u64,
    /// The grain table to write next: its number and its entries. Their number is that of a table.
    table: Option<(u64, Vec<u32>)>,
    /// The first sectors of the tables so far.
    directory: Vec<u32>,
}

impl<W: Write> fmt::Debug for StreamWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter")
            .field("sector", &self.sector)
            .field("next_grain", &self.next_grain)
            .finish_non_exhaustive()
    }
}

impl<W: Write> StreamWriter<W> {
    /// Begins an image: writes the header and the descriptor.
    ///
    /// # Errors
    /// `Invalid` for invalid options; the errors of writing.
    pub fn new(out: W, options: WriteOptions) -> Result<Self> {
        options.check()?;
        let mut writer = Self {
            out,
            sector: 0,
            next_grain: 0,
            table: None,
            directory: Vec::new(),
            options,
        };
        let start = header(&writer.options, fields(GD_AT_END));
        writer.append(&start)?;
        let text = descriptor_text(&writer.options, &CreateType::StreamOptimized);
        writer.append(&text)?;
        while writer.sector < FIRST_SECTOR {
            writer.append(&ZEROES)?;
        }
        Ok(writer)
    }

    /// Writes a grain: the bytes of the disk from `grain` times [`GRAIN_BYTES`] on, as
    /// [`compress_grain`](crate::compress_grain) returns them. Grains are written in ascending
    /// order. Those that are left out read as zeroes.
    ///
    /// # Errors
    /// `Invalid` for a grain outside of the disk or not in order, and for data that no reader
    /// would accept; the errors of writing.
    pub fn write_grain(&mut self, grain: u64, compressed: &[u8]) -> Result<()> {
        if grain < self.next_grain || grain >= self.options.grains() {
            return Err(Error::invalid(format!("grain {grain} is not in order")));
        }
        let len_bytes = u32::try_from(compressed.len()).ok();
        let len_bytes = len_bytes
            .filter(|it| *it > 0 && u64::from(*it) <= max_stored_bytes(GRAIN_BYTES))
            .ok_or_else(|| Error::invalid("invalid length of a compressed grain"))?;
        self.begin_table(grain.div_euclid(TABLE_ENTRIES))?;
        let sector = entry(self.sector)?;
        if let Some((_, entries)) = &mut self.table
            && let Some(entry) = entries.get_mut(index(grain.rem_euclid(TABLE_ENTRIES)))
        {
            *entry = sector;
        }
        let lba = grain.saturating_mul(GRAIN_BYTES / SECTOR_BYTES);
        let mut bytes = Marker::grain_bytes(lba, len_bytes).to_vec();
        bytes.extend_from_slice(compressed);
        self.append(&bytes)?;
        self.next_grain = grain.saturating_add(1);
        Ok(())
    }

    /// Ends the image: writes the last table, the directory and the footer, and returns the
    /// output, which is flushed.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn finish(mut self) -> Result<W> {
        self.end_table()?;
        self.directory.resize(index(tables(&self.options)), 0);
        let directory = entries_bytes(&self.directory);
        self.marker(MetadataType::GrainDirectory, len_u64(directory.len()))?;
        let footer = header(&self.options, fields(self.sector));
        self.append(&directory)?;
        self.marker(MetadataType::Footer, len_u64(footer.len()))?;
        self.append(&footer)?;
        self.marker(MetadataType::EndOfStream, 0)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Makes the table with this number the current one.
    fn begin_table(&mut self, number: u64) -> Result<()> {
        if self.table.as_ref().is_some_and(|(it, _)| *it == number) {
            return Ok(());
        }
        self.end_table()?;
        self.table = Some((number, vec![0; index(TABLE_ENTRIES)]));
        Ok(())
    }

    /// Writes the current table.
    fn end_table(&mut self) -> Result<()> {
        let Some((number, entries)) = self.table.take() else {
            return Ok(());
        };
        let bytes = entries_bytes(&entries);
        self.marker(MetadataType::GrainTable, len_u64(bytes.len()))?;
        self.directory.resize(index(number), 0);
        self.directory.push(entry(self.sector)?);
        self.append(&bytes)
    }

    fn marker(&mut self, kind: MetadataType, len_bytes: u64) -> Result<()> {
        let sectors = len_bytes.div_ceil(SECTOR_BYTES);
        self.append(&Marker::metadata_bytes(kind, sectors))
    }

    /// Writes bytes, filled up to whole sectors.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes)?;
        let sectors = len_u64(bytes.len()).div_ceil(SECTOR_BYTES);
        let padding = sectors
            .saturating_mul(SECTOR_BYTES)
            .saturating_sub(len_u64(bytes.len()));
        self.out
            .write_all(ZEROES.get(..index(padding)).unwrap_or_default())?;
        self.sector = self.sector.saturating_add(sectors);
        Ok(())
    }
}

/// Version 3, as VMware writes streams.
fn fields(directory_sector: u64) -> Fields {
    Fields {
        version: 3,
        flags: flags::NEW_LINE_TEST | flags::COMPRESSED | flags::MARKERS,
        redundant_sector: 0,
        directory_sector,
        overhead_sectors: FIRST_SECTOR,
    }
}

/// Returns the entry for a sector of the file.
pub(super) fn entry(sector: u64) -> Result<u32> {
    u32::try_from(sector)
        .map_err(|_| Error::unsupported("unsupported VMDK file of more than 2 TiB"))
}
