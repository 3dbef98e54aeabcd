//! A compressed file as a disk.

use std::sync::Arc;

use diskfs_block::{
    BlockRead, CompressedUnit, Error, ImageMap, MappedRun, Result, RunStorage, bytes,
};

use crate::codec::Codec;
use crate::device_reader::DeviceReader;
use crate::recent::Recent;
use crate::seek_table::{self, SeekTable};
use crate::units::{Unit, Units};
use crate::{bgzf, xz_index, zstd_frames};

/// The number of bytes to read at once from the headers of units, between which data is skipped.
const HEADERS_BYTES: usize = 4096;

/// A compressed file whose units can be decompressed by themselves.
#[derive(Debug)]
pub struct Compressed {
    file: Arc<dyn BlockRead>,
    codec: Codec,
    units: Units,
    recent: Recent,
}

impl Compressed {
    /// Opens a file that is compressed by `codec`. Returns `None` if it has to be decompressed as a
    /// whole, because its units are too large or too many.
    ///
    /// # Errors
    /// `Corrupt` with the byte; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>, codec: Codec) -> Result<Option<Self>> {
        let headers = || DeviceReader::new(Arc::clone(&file), HEADERS_BYTES);
        let found = match codec {
            Codec::Gzip => bgzf::units(headers())?,
            Codec::Xz => xz_index::units(file.as_ref())?,
            Codec::Zstd => match seek_table::units(file.as_ref())? {
                SeekTable::Units(units) => units,
                SeekTable::Missing => zstd_frames::units(headers())?,
            },
            Codec::Bzip2 | Codec::Lz4 | Codec::LegacyLz4 => return Ok(None),
        };
        Ok(found.filter(|units| units.len() > 0).map(|units| Self {
            file,
            codec,
            recent: Recent::new(units.largest_bytes()),
            units,
        }))
    }

    /// Returns the length of the largest unit in bytes, decompressed: what has to be decompressed
    /// to read one byte.
    pub fn largest_unit_bytes(&self) -> u64 {
        self.units.largest_bytes()
    }

    /// Returns the number of units.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// Returns the length of a unit in the file, with its padding.
    fn stored_bytes(&self, unit: &Unit) -> u64 {
        match self.codec {
            Codec::Xz => xz_index::padded(unit.stored_bytes.into()),
            _ => unit.stored_bytes.into(),
        }
    }

    fn unpack(&self, unit: &Unit, len: u64, spare: Option<Arc<[u8]>>) -> Result<Arc<[u8]>> {
        let stored = (unit, self.stored_bytes(unit));
        let unpacked = self
            .codec
            .decompress(&self.file, stored, bytes::index(len), spare)?;
        let expected = self.units.checksum_at(unit.offset);
        if expected.is_some_and(|expected| expected != seek_table::checksum(&unpacked)) {
            let reason = "wrong checksum of a frame of zstd, by the seek table";
            return Err(Error::corrupt(reason).at(unit.offset));
        }
        Ok(unpacked)
    }
}

impl ImageMap for Compressed {
    fn size_bytes(&self) -> u64 {
        self.units.size_bytes()
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let past_end = || Error::corrupt("no compressed data has this byte of the disk").at(offset);
        let (unit, end) = self.units.at(offset).ok_or_else(past_end)?;
        Ok(MappedRun {
            len_bytes: end.saturating_sub(offset).min(max_len),
            storage: RunStorage::Compressed {
                unit: CompressedUnit {
                    file: 0,
                    offset: unit.offset,
                    stored_bytes: self.stored_bytes(unit),
                    unpacked_bytes: end.saturating_sub(unit.start),
                },
                skip_bytes: offset.saturating_sub(unit.start),
            },
        })
    }

    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        let unknown = || Error::corrupt("no compressed data begins here").at(unit.offset);
        let (found, end) = self.units.stored_at(unit.offset).ok_or_else(unknown)?;
        let len = end.saturating_sub(found.start);
        self.recent
            .get_or_make(found.offset, |spare| self.unpack(found, len, spare))
    }
}
