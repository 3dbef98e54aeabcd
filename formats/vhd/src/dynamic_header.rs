//! The header of dynamic and differencing disks: specification, "Dynamic Disk Header Format".

use diskfs_block::bytes::{be16, text_until_nul};
use diskfs_block::{BlockRead, Error, Result, read_within};
use uuid::Uuid;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::checksum;
use crate::footer::{Footer, SECTOR_BYTES};
use crate::parent_locator::RawParentLocator;

pub(crate) const HEADER_BYTES: usize = 1024;
const COOKIE: [u8; 8] = *b"cxsparse";
const CHECKSUM_AT: usize = 36;
const VERSION: u32 = 0x0001_0000;
/// The block sizes that are read. The specification allows every power of two of sectors; 2 MiB is
/// usual. The upper limit is ours.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=256 << 20;

/// The header's 1024 bytes, with the names of the specification.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDynamicHeader {
    cookie: [u8; 8],
    data_offset: U64,
    table_offset: U64,
    header_version: U32,
    max_table_entries: U32,
    block_size: U32,
    checksum: U32,
    parent_unique_id: [u8; 16],
    parent_time_stamp: U32,
    reserved_1: U32,
    /// UTF-16, big-endian.
    parent_unicode_name: [u8; 512],
    parent_locators: [RawParentLocator; 8],
    reserved_2: [u8; 256],
}

const _: () = assert!(size_of::<RawDynamicHeader>() == HEADER_BYTES);

impl RawDynamicHeader {
    /// Returns the header of a dynamic disk as it is stored.
    pub(crate) fn encode(table_at: u64, blocks: u32, block_bytes: u32) -> [u8; HEADER_BYTES] {
        let mut raw = Self::new_zeroed();
        raw.cookie = COOKIE;
        raw.data_offset = U64::new(u64::MAX);
        raw.table_offset = U64::new(table_at);
        raw.header_version = U32::new(VERSION);
        raw.max_table_entries = U32::new(blocks);
        raw.block_size = U32::new(block_bytes);
        raw.checksum = U32::new(checksum(raw.as_bytes(), CHECKSUM_AT));
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }
}

/// A header whose fields are in range.
#[derive(Debug)]
pub(crate) struct DynamicHeader {
    /// The offset of the block allocation table in bytes.
    pub(crate) table_at: u64,
    /// The number of entries that the disk needs.
    pub(crate) blocks: u64,
    pub(crate) block_bytes: u64,
    pub(crate) parent_id: Uuid,
    /// The modification time of the parent in seconds since 2000-01-01; 0 if unknown.
    pub(crate) parent_time: u32,
    pub(crate) parent_name: String,
    pub(crate) parent_locators: [RawParentLocator; 8],
}

impl DynamicHeader {
    /// Reads and checks the header that `footer` refers to.
    pub(crate) fn read(file: &dyn BlockRead, footer: &Footer) -> Result<Self> {
        let at = footer.header_at;
        let bytes = read_within(file, at, HEADER_BYTES)?;
        let Some(bytes) = bytes else {
            return Err(Error::corrupt("dynamic disk header is past the end of the file").at(at));
        };
        let raw = RawDynamicHeader::read_from_bytes(&bytes)
            .map_err(|_| Error::corrupt("truncated dynamic disk header").at(at))?;
        raw.check(checksum(&bytes, CHECKSUM_AT), at)?;
        raw.header(footer.size_bytes, at)
    }
}

impl RawDynamicHeader {
    fn check(&self, computed: u32, at: u64) -> Result<()> {
        if self.cookie != COOKIE {
            return Err(Error::corrupt("cookie of the dynamic disk header is missing").at(at));
        }
        let stored = self.checksum.get();
        if stored != computed {
            let reason = format!(
                "checksum of the dynamic disk header is {stored:#x}, and should be {computed:#x}"
            );
            return Err(Error::corrupt(reason).at(at.saturating_add(36)));
        }
        let version = self.header_version.get();
        if version != VERSION {
            let reason = format!("unsupported version {version:#x} of the dynamic disk header");
            return Err(Error::unsupported(reason).at(at.saturating_add(24)));
        }
        Ok(())
    }

    fn header(&self, size_bytes: u64, at: u64) -> Result<DynamicHeader> {
        let block_bytes = self.block_size.get();
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            let reason = format!("unsupported VHD with blocks of {block_bytes} bytes");
            return Err(Error::unsupported(reason).at(at.saturating_add(32)));
        }
        let blocks = size_bytes.div_ceil(u64::from(block_bytes));
        let entries = u64::from(self.max_table_entries.get());
        if blocks > entries {
            let reason = format!("disk has {blocks} blocks, and its table only {entries} entries");
            return Err(Error::corrupt(reason).at(at.saturating_add(28)));
        }
        let units = self.parent_unicode_name.chunks_exact(2);
        let name = text_until_nul(units.filter_map(|unit| be16(unit, 0)));
        Ok(DynamicHeader {
            table_at: self.table_offset.get(),
            blocks,
            block_bytes: u64::from(block_bytes),
            parent_id: Uuid::from_bytes(self.parent_unique_id),
            parent_time: self.parent_time_stamp.get(),
            parent_name: name,
            parent_locators: self.parent_locators,
        })
    }
}

impl DynamicHeader {
    /// Returns the length of the sector bitmap in front of each block: a bit for each sector, in
    /// whole sectors.
    pub(crate) const fn bitmap_bytes(&self) -> u64 {
        (self.block_bytes / SECTOR_BYTES)
            .div_ceil(8)
            .div_ceil(SECTOR_BYTES)
            .saturating_mul(SECTOR_BYTES)
    }
}
