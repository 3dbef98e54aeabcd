//! The header of a log entry: MS-VHDX 2.3.1.1.

use diskfs_block::bytes;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::log::SECTOR_BYTES;
use crate::log::ring::Ring;

const SIGNATURE: [u8; 4] = *b"loge";

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawEntryHeader {
    signature: [u8; 4],
    checksum: U32,
    entry_length: U32,
    tail: U32,
    sequence_number: U64,
    descriptor_count: U32,
    reserved: U32,
    log_guid: [u8; 16],
    flushed_file_offset: U64,
    last_file_offset: U64,
}

pub(crate) const HEADER_BYTES: usize = size_of::<RawEntryHeader>();
const _: () = assert!(HEADER_BYTES == 64);

/// A header whose fields are in range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryHeader {
    pub(crate) checksum: u32,
    /// The length of the entry in sectors; at least 1, at most the log's.
    pub(crate) sectors: usize,
    /// The sector of the first entry of the sequence that ends with this entry.
    pub(crate) tail: usize,
    pub(crate) sequence_number: u64,
    pub(crate) descriptors: usize,
    pub(crate) flushed_bytes: u64,
    pub(crate) last_bytes: u64,
}

impl EntryHeader {
    /// Parses the header in a sector of the log. Returns `None` if there is no valid one.
    pub(crate) fn parse(ring: &Ring, sector: usize) -> Option<Self> {
        let (raw, _) = RawEntryHeader::read_from_prefix(ring.sector(sector, 0)).ok()?;
        let whole = |bytes: u32| {
            let bytes = bytes::index(bytes);
            bytes
                .is_multiple_of(SECTOR_BYTES)
                .then_some(bytes / SECTOR_BYTES)
        };
        let header = Self {
            checksum: raw.checksum.get(),
            sectors: whole(raw.entry_length.get())?,
            tail: whole(raw.tail.get())?,
            sequence_number: raw.sequence_number.get(),
            descriptors: bytes::index(raw.descriptor_count.get()),
            flushed_bytes: raw.flushed_file_offset.get(),
            last_bytes: raw.last_file_offset.get(),
        };
        let is_valid = raw.signature == SIGNATURE
            && Uuid::from_bytes_le(raw.log_guid) == ring.guid
            && (1..=ring.sectors()).contains(&header.sectors)
            && header.tail < ring.sectors()
            && header.sequence_number > 0
            && header.descriptor_sectors() <= header.sectors;
        is_valid.then_some(header)
    }

    /// Returns the number of sectors with descriptors; the first one has the header, too.
    pub(crate) const fn descriptor_sectors(&self) -> usize {
        self.descriptors
            .saturating_mul(32)
            .saturating_add(HEADER_BYTES)
            .div_ceil(SECTOR_BYTES)
    }
}
