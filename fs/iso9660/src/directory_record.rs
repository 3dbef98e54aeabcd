//! Directory records (ECMA-119, 9.1).

use diskfs_vfs::Timestamp;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::date_time::{self, SHORT_BYTES};
use crate::error::{Result, corrupt};
use crate::numbers::Both32;

/// The fields before the identifier, as they are on the device.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    length: u8,
    extended_attribute_blocks: u8,
    extent: Both32,
    data_length: Both32,
    recorded: [u8; SHORT_BYTES],
    flags: u8,
    file_unit_size: u8,
    interleave_gap_size: u8,
    _volume_sequence_number: [u8; 4],
    identifier_length: u8,
}

/// The number of bytes before the identifier.
const FIXED_BYTES: usize = 33;

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// The size of the longest record: its length is stored in a byte.
pub(crate) const MAX_BYTES: usize = 255;

/// A run of bytes of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start_bytes: u64,
    pub(crate) len_bytes: u32,
}

/// A parsed directory record.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryRecord {
    /// The offset of the record on the device.
    pub(crate) place: u64,
    /// The location of the data, without the extended attribute record before it.
    pub(crate) data: Run,
    pub(crate) recorded: Timestamp,
    /// True if the file is recorded in units with gaps between them (6.4.3).
    pub(crate) is_interleaved: bool,
    flags: u8,
    bytes: Vec<u8>,
    identifier_bytes: usize,
}

impl DirectoryRecord {
    /// The flag of a directory (9.1.6).
    const DIRECTORY: u8 = 0x02;
    /// The flag of a file that belongs to another file of that name, like a Macintosh resource fork
    /// (9.1.6).
    const ASSOCIATED: u8 = 0x04;
    /// The flag of a record whose file continues in the next record (9.1.6).
    const MULTI_EXTENT: u8 = 0x80;

    /// Parses the record at the start of `bytes`, which are at `place` on the device and end at the
    /// end of the sector at the latest. Returns `None` for a length of zero, which means that the
    /// sector has no further records.
    pub(crate) fn parse(bytes: &[u8], place: u64, block_bytes: u32) -> Result<Option<Self>> {
        if bytes.first().is_none_or(|length| *length == 0) {
            return Ok(None);
        }
        let Ok((raw, _)) = Raw::ref_from_prefix(bytes) else {
            return Err(corrupt(
                "invalid directory record: it crosses the end of its sector",
                place,
            ));
        };
        let Some(bytes) = bytes.get(..raw.length.into()) else {
            return Err(corrupt(
                "invalid directory record: it crosses the end of its sector",
                place,
            ));
        };
        let identifier_bytes = usize::from(raw.identifier_length);
        let named = bytes.get(FIXED_BYTES..).unwrap_or_default();
        if identifier_bytes == 0 || identifier_bytes > named.len() {
            return Err(corrupt(
                "invalid directory record: the name is longer than the record",
                place,
            ));
        }
        let before_data = u64::from(raw.extended_attribute_blocks);
        let first_block = u64::from(raw.extent.get()).saturating_add(before_data);
        Ok(Some(Self {
            place,
            data: Run {
                start_bytes: first_block.saturating_mul(block_bytes.into()),
                len_bytes: raw.data_length.get(),
            },
            recorded: date_time::short(raw.recorded),
            is_interleaved: raw.file_unit_size != 0 || raw.interleave_gap_size != 0,
            flags: raw.flags,
            bytes: bytes.to_vec(),
            identifier_bytes,
        }))
    }

    /// Returns the offset after the record, where the next one can start.
    pub(crate) fn end(&self) -> u64 {
        self.place.saturating_add(diskfs_block::len_of(&self.bytes))
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.flags & Self::DIRECTORY != 0
    }

    pub(crate) fn is_associated(&self) -> bool {
        self.flags & Self::ASSOCIATED != 0
    }

    pub(crate) fn has_next_extent(&self) -> bool {
        self.flags & Self::MULTI_EXTENT != 0
    }

    /// Returns the name as it is recorded (9.1.11).
    pub(crate) fn identifier(&self) -> &[u8] {
        let named = self.bytes.get(FIXED_BYTES..).unwrap_or_default();
        named.get(..self.identifier_bytes).unwrap_or_default()
    }

    /// Returns true if this is the record of the directory itself (6.8.2.2).
    pub(crate) fn is_self(&self) -> bool {
        self.identifier() == [0]
    }

    /// Returns true if this is the record of the parent directory (6.8.2.2).
    pub(crate) fn is_parent(&self) -> bool {
        self.identifier() == [1]
    }

    /// Returns the system use area (9.1.13), which follows the name and its padding to an even
    /// length.
    pub(crate) fn system_use(&self) -> &[u8] {
        let padding = usize::from(self.identifier_bytes.is_multiple_of(2));
        let start = FIXED_BYTES
            .saturating_add(self.identifier_bytes)
            .saturating_add(padding);
        self.bytes.get(start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(identifier: &[u8], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0] = length.try_into().unwrap();
        bytes[2] = 5;
        bytes[10] = 7;
        bytes[32] = identifier.len().try_into().unwrap();
        bytes[33..33 + identifier.len()].copy_from_slice(identifier);
        bytes
    }

    #[test]
    fn fields_are_where_they_are() {
        let mut bytes = record(b"AB", 40);
        bytes[1] = 2;
        bytes[36..40].copy_from_slice(b"RRRR");
        let record = DirectoryRecord::parse(&bytes, 100, 2048).unwrap().unwrap();
        assert_eq!(record.identifier(), b"AB");
        assert_eq!(record.system_use(), b"RRRR");
        assert_eq!(
            (record.data.start_bytes, record.data.len_bytes),
            (7 * 2048, 7)
        );
        assert_eq!(record.end(), 140);
    }

    #[test]
    fn lengths_that_lie_are_corrupt() {
        let parse = |bytes: &[u8]| DirectoryRecord::parse(bytes, 0, 2048);
        assert!(parse(&[]).unwrap().is_none());
        assert!(parse(&[0; 40]).unwrap().is_none());
        assert!(parse(&record(b"AB", 65)).is_err());
        assert!(parse(&record(b"AB", 34)).is_err());
        assert!(parse(&record(b"", 40)).is_err());
        assert!(parse(&record(b"AB", 35)[..20]).is_err());
        assert!(
            parse(&record(b"AB", 35))
                .unwrap()
                .unwrap()
                .system_use()
                .is_empty()
        );
    }
}
