//! Reads compressed grains.

use std::sync::Arc;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{CompressedUnit, Error, Result, read_within};

use crate::entry::Place;
use crate::grain_map::{GrainMap, max_stored_bytes};
use crate::inflate::Inflater;
use crate::marker::{GRAIN_MARKER_BYTES, Marker};
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::Compression;
use crate::tables::Tables;

impl GrainMap {
    /// Reads and decompresses a grain.
    ///
    /// # Errors
    /// `Corrupt` if the marker is invalid or belongs to another grain, or if the data cannot be
    /// decompressed.
    pub(crate) fn decompress(
        &self,
        tables: &Tables,
        inflater: &Inflater,
        unit: CompressedUnit,
    ) -> Result<Arc<[u8]>> {
        let stored = match self.layout.compression {
            Some(Compression::WithMarkers) => self.read_marked(tables, unit)?,
            _ => self.read_unmarked(unit)?,
        };
        // The unit is the caller's: its sizes are used only as far as the extent allows them.
        let grain_bytes = self.layout.grain_bytes.get();
        let needed_bytes = unit.unpacked_bytes.min(grain_bytes);
        let grain = inflater.run(&stored, index(grain_bytes), index(needed_bytes));
        grain.map(Arc::from).map_err(|e| e.at(unit.offset))
    }

    fn read_unmarked(&self, unit: CompressedUnit) -> Result<Vec<u8>> {
        let len_bytes = unit.stored_bytes.min(self.max_stored(unit));
        self.read(unit.offset, len_bytes)
    }

    fn read_marked(&self, tables: &Tables, unit: CompressedUnit) -> Result<Vec<u8>> {
        let marker_bytes = len_u64(GRAIN_MARKER_BYTES);
        let marker = self.read(unit.offset, marker_bytes)?;
        let Some(Marker::Grain { lba, len_bytes }) = Marker::parse(&marker) else {
            return Err(Error::corrupt("missing grain marker").at(unit.offset));
        };
        self.check_lba(tables, lba, unit.offset)?;
        let limit = self.max_stored(unit).saturating_sub(marker_bytes);
        let len_bytes = u64::from(len_bytes);
        if len_bytes > limit {
            let reason = format!("invalid grain marker: {len_bytes} bytes of compressed data");
            return Err(Error::corrupt(reason).at(unit.offset));
        }
        self.read(unit.offset.saturating_add(marker_bytes), len_bytes)
    }

    /// Checks that the tables have the grain that the marker names here.
    fn check_lba(&self, tables: &Tables, lba: u64, offset: u64) -> Result<()> {
        let start = lba.checked_mul(SECTOR_BYTES);
        let start = start.filter(|it| *it < self.layout.capacity_bytes);
        let is_here = match start {
            Some(start) if start % self.layout.grain_bytes == 0 => {
                self.grain(tables, start / self.layout.grain_bytes)? == Place::At(offset)
            }
            _ => false,
        };
        if is_here {
            return Ok(());
        }
        let reason = format!("grain marker of sector {lba}, which the grain tables have elsewhere");
        Err(Error::corrupt(reason).at(offset))
    }

    fn max_stored(&self, unit: CompressedUnit) -> u64 {
        let left = self.device.size_bytes().saturating_sub(unit.offset);
        max_stored_bytes(self.layout.grain_bytes.get()).min(left)
    }

    fn read(&self, offset: u64, len_bytes: u64) -> Result<Vec<u8>> {
        let bytes = read_within(&*self.device, offset, index(len_bytes))?;
        bytes.ok_or_else(|| {
            let reason = "compressed grain past the end of the file; the file may be truncated";
            Error::corrupt(reason).at(offset)
        })
    }
}
