//! The base block: the header of a hive and of each of its logs. Specification, "Base block".

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Filetime;

/// The offset of the hive bins data in a primary file.
pub(crate) const BASE_BLOCK_BYTES: u64 = 4096;

/// The number of bytes to read. Later fields have no meaning on disk, and logs do not have them.
pub(crate) const FIRST_SECTOR_BYTES: usize = 512;

/// The supported minor versions: from Windows NT 4 (1.3) up to now (1.6).
const MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 3..=6;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: [u8; 4],
    primary_sequence_number: U32,
    secondary_sequence_number: U32,
    last_written_timestamp: U64,
    major_version: U32,
    minor_version: U32,
    file_type: U32,
    file_format: U32,
    root_cell_offset: U32,
    hive_bins_data_size: U32,
    clustering_factor: U32,
    file_name: [u8; 64],
    reserved: [u8; 396],
    checksum: U32,
}

const _: () = assert!(size_of::<Raw>() == FIRST_SECTOR_BYTES);

/// The type of a file with a base block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    Primary,
    /// A transaction log with a dirty vector (up to Windows 8).
    OldLog,
    /// A transaction log with entries (since Windows 8.1).
    NewLog,
}

/// A base block with a valid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BaseBlock {
    pub(crate) primary_sequence_number: u32,
    pub(crate) secondary_sequence_number: u32,
    pub(crate) last_written: Filetime,
    pub(crate) major_version: u32,
    pub(crate) minor_version: u32,
    file_type: u32,
    pub(crate) root_cell_offset: u32,
    pub(crate) hive_bins_data_size: u32,
    clustering_factor: u32,
    has_right_checksum: bool,
}

impl BaseBlock {
    /// Reads the base block of a file; `None` if the file does not start with one.
    ///
    /// # Errors
    /// Those of [`BlockRead::read_at`].
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let sector = diskfs_block::read_within(device, 0, FIRST_SECTOR_BYTES)?;
        Ok(sector.and_then(|sector| Self::from_bytes(&sector)))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
        (raw.signature == *b"regf").then(|| Self {
            primary_sequence_number: raw.primary_sequence_number.get(),
            secondary_sequence_number: raw.secondary_sequence_number.get(),
            last_written: Filetime(raw.last_written_timestamp.get()),
            major_version: raw.major_version.get(),
            minor_version: raw.minor_version.get(),
            file_type: raw.file_type.get(),
            root_cell_offset: raw.root_cell_offset.get(),
            hive_bins_data_size: raw.hive_bins_data_size.get(),
            clustering_factor: raw.clustering_factor.get(),
            has_right_checksum: raw.checksum.get() == checksum(bytes),
        })
    }

    /// Returns true if the checksum is correct.
    pub(crate) fn is_valid(&self) -> bool {
        self.has_right_checksum
    }

    /// Returns true if the sequence numbers are equal: the last write was completed.
    pub(crate) fn is_synchronised(&self) -> bool {
        self.primary_sequence_number == self.secondary_sequence_number
    }

    /// Returns the file type; `None` if unknown. Windows 2000 and earlier wrote 2 in their logs.
    pub(crate) fn file_type(&self) -> Option<FileType> {
        match self.file_type {
            0 => Some(FileType::Primary),
            1 | 2 => Some(FileType::OldLog),
            6 => Some(FileType::NewLog),
            _ => None,
        }
    }

    /// Returns the sector size that logs use; only 512 and 4096 exist.
    pub(crate) fn sector_bytes(&self) -> u64 {
        if self.clustering_factor == 8 {
            4096
        } else {
            512
        }
    }

    /// Fails if the version is not supported.
    ///
    /// # Errors
    /// `Unsupported` for any other version.
    pub(crate) fn check_version(&self) -> Result<()> {
        if self.major_version == 1 && MINOR_VERSIONS.contains(&self.minor_version) {
            return Ok(());
        }
        let version = format!("{}.{}", self.major_version, self.minor_version);
        Err(Error::unsupported(format!(
            "unsupported hive version {version}, expected 1.3 to 1.6"
        )))
    }
}

/// Computes the checksum: the exclusive or of the words of the first 508 bytes. The values 0 and -1
/// are replaced, because they are never written.
pub(crate) fn checksum(sector: &[u8]) -> u32 {
    let covered = sector.get(..508).unwrap_or_default();
    let words = covered.as_chunks::<4>().0.iter();
    match words.fold(0, |sum, word| sum ^ u32::from_le_bytes(*word)) {
        0 => 1,
        u32::MAX => u32::MAX.wrapping_sub(1),
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checksums_are_never_written() {
        let mut sector = [0; 512];
        assert_eq!(checksum(&sector), 1);
        sector[..4].fill(0xff);
        assert_eq!(checksum(&sector), 0xffff_fffe);
        sector[4] = 1;
        assert_eq!(checksum(&sector), 0xffff_fffe);
        sector[5] = 1;
        assert_eq!(checksum(&sector), 0xffff_fefe);
    }
}
