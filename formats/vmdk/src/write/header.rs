//! The header of an image to write.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::descriptor_text::DESCRIPTOR_SECTORS;
use super::options::{GRAIN_BYTES, WriteOptions};
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::{HEADER_BYTES, LINE_ENDS, MAGIC, RawSparseExtentHeader, flags};

/// The entries of a grain table.
pub(super) const TABLE_ENTRIES: u64 = 512;

/// The sectors of a grain table.
pub(super) const TABLE_SECTORS: u64 = 4;

/// The sector of the descriptor.
pub(super) const DESCRIPTOR_SECTOR: u64 = 1;

/// The fields in which headers differ. All places are in sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) version: u32,
    pub(super) flags: u32,
    pub(super) redundant_sector: u64,
    pub(super) directory_sector: u64,
    /// The sectors before the first grain.
    pub(super) overhead_sectors: u64,
}

/// Returns the 512 bytes of a header.
pub(super) fn header(options: &WriteOptions, fields: Fields) -> [u8; HEADER_BYTES] {
    let is_compressed = fields.flags & flags::COMPRESSED != 0;
    let raw = RawSparseExtentHeader {
        magic_number: U32::new(MAGIC),
        version: U32::new(fields.version),
        flags: U32::new(fields.flags),
        capacity: U64::new(options.capacity_sectors()),
        grain_size: U64::new(GRAIN_BYTES / SECTOR_BYTES),
        descriptor_offset: U64::new(DESCRIPTOR_SECTOR),
        descriptor_size: U64::new(DESCRIPTOR_SECTORS),
        num_gtes_per_gt: U32::new(512),
        rgd_offset: U64::new(fields.redundant_sector),
        gd_offset: U64::new(fields.directory_sector),
        over_head: U64::new(fields.overhead_sectors),
        unclean_shutdown: 0,
        line_ends: LINE_ENDS,
        compress_algorithm: U16::new(is_compressed.into()),
        pad: [0; 433],
    };
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(raw.as_bytes());
    bytes
}

/// Returns the number of grain tables of a disk.
pub(super) fn tables(options: &WriteOptions) -> u64 {
    options.grains().div_ceil(TABLE_ENTRIES)
}

/// Returns the bytes of table entries, filled up to whole sectors.
pub(super) fn entries_bytes(entries: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|it| it.to_le_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(HEADER_BYTES), 0);
    bytes
}
