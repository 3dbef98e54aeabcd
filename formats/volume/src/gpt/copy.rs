//! A copy of a GPT: a header and its entry array.

use std::fmt;

use diskfs_block::{BlockRead, Result, read_within};

use crate::SectorSize;
use crate::sector::Lba;

use super::entry::Entry;
use super::header::{Header, HeaderError};

/// A copy with correct checksums of header and entries.
#[derive(Debug, Clone)]
pub(crate) struct TableCopy {
    pub(crate) header: Header,
    /// The entries in use with their numbers, which count from 1.
    pub(crate) entries: Vec<(u32, Entry)>,
    /// The entry array as it is on disk.
    pub(crate) array: Vec<u8>,
}

/// The reason why a copy cannot be used.
#[derive(Debug)]
pub(crate) enum CopyError {
    Header(HeaderError),
    ArrayPastEnd(Box<Header>),
    ArrayChecksum { header: Box<Header>, actual: u32 },
}

impl CopyError {
    /// Returns true if there is no header.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Header(HeaderError::NoSignature | HeaderError::PastEnd)
        )
    }

    /// Returns the header if it is valid.
    pub(crate) fn header(&self) -> Option<&Header> {
        match self {
            Self::Header(_) => None,
            Self::ArrayPastEnd(header) | Self::ArrayChecksum { header, .. } => Some(header),
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(e) => e.fmt(f),
            Self::ArrayPastEnd(header) => write!(
                f,
                "has its entries at LBA {}, past the end of the disk",
                header.partition_entry_lba
            ),
            Self::ArrayChecksum { header, actual } => write!(
                f,
                "has a wrong checksum of its entries ({actual:#010x}, stored {:#010x})",
                header.array_crc32
            ),
        }
    }
}

impl TableCopy {
    /// Reads the copy whose header is at `lba`. The outer error is the device's.
    pub(crate) fn read(
        device: &dyn BlockRead,
        lba: Lba,
        sector_size: SectorSize,
    ) -> Result<std::result::Result<Self, CopyError>> {
        let header = match Header::read(device, lba, sector_size)? {
            Ok(header) => header,
            Err(e) => return Ok(Err(CopyError::Header(e))),
        };
        let Some(array) = read_array(device, &header, sector_size)? else {
            return Ok(Err(CopyError::ArrayPastEnd(Box::new(header))));
        };
        let actual = crc32fast::hash(&array);
        if actual != header.array_crc32 {
            let header = Box::new(header);
            return Ok(Err(CopyError::ArrayChecksum { header, actual }));
        }
        let entries = (1..)
            .zip(array.chunks_exact(header.array.entry_bytes))
            .filter_map(|(number, bytes)| Some((number, Entry::from_bytes(bytes)?)))
            .collect();
        Ok(Ok(Self {
            header,
            entries,
            array,
        }))
    }

    /// Returns true if both describe the same disk and partitions.
    pub(crate) fn tells_the_same_as(&self, other: &Self) -> bool {
        let (a, b) = (&self.header, &other.header);
        a.disk_guid == b.disk_guid
            && a.first_usable_lba == b.first_usable_lba
            && a.last_usable_lba == b.last_usable_lba
            && self.entries == other.entries
    }
}

/// Reads the whole array; returns `None` if it does not lie on the device.
fn read_array(
    device: &dyn BlockRead,
    header: &Header,
    sector_size: SectorSize,
) -> Result<Option<Vec<u8>>> {
    match sector_size.to_bytes(header.partition_entry_lba.0) {
        Some(offset) => read_within(device, offset, header.array.len_bytes),
        None => Ok(None),
    }
}

/// Returns the disk's last whole sector, where the backup header belongs; LBA 0 on an empty disk.
pub(crate) fn last_lba(device: &dyn BlockRead, sector_size: SectorSize) -> Lba {
    Lba(sector_size.count_on(device).saturating_sub(1))
}
