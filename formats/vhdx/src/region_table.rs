//! The region table: MS-VHDX 2.2.3.

use diskfs_block::{BlockRead, Error, Result, WriteAt, bytes, read_within};
use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{checksum, put_checksum};

const TABLE_BYTES: usize = 64 << 10;
/// The offsets of the two copies.
const COPIES_AT: [u64; 2] = [192 << 10, 256 << 10];
const SIGNATURE: [u8; 4] = *b"regi";
/// The largest number of entries (specification, `EntryCount`).
const ENTRIES_MAX: u32 = 2047;
/// The alignment of regions, and the end of the header section.
pub(crate) const MIB: u64 = 1 << 20;

const BAT: Uuid = uuid!("2dc27766-f623-4200-9d64-115e9bfd4a08");
const METADATA: Uuid = uuid!("8b7ca206-4790-4b9a-b8fe-575f050f886e");

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRegionTableHeader {
    signature: [u8; 4],
    checksum: U32,
    entry_count: U32,
    reserved: U32,
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRegionTableEntry {
    guid: [u8; 16],
    file_offset: U64,
    length: U32,
    required: U32,
}

/// A region of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
}

/// The regions of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Regions {
    pub(crate) bat: Region,
    pub(crate) metadata: Region,
}

impl Regions {
    /// Reads the first valid copy of the table.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        for at in COPIES_AT {
            let bytes = read_within(file, at, TABLE_BYTES)?.unwrap_or_default();
            if let Some(count) = entry_count(&bytes) {
                return Self::parse(&bytes, count, at);
            }
        }
        Err(Error::corrupt("both region tables of the VHDX are damaged").at(COPIES_AT[0]))
    }

    fn parse(table: &[u8], count: u32, at: u64) -> Result<Self> {
        let (mut bat, mut metadata) = (None, None);
        let entries = table
            .get(size_of::<RawRegionTableHeader>()..)
            .unwrap_or_default();
        let entries = entries.chunks_exact(size_of::<RawRegionTableEntry>());
        for (n, entry) in entries.take(bytes::index(count)).enumerate() {
            let entry_at = at
                .saturating_add(16)
                .saturating_add(bytes::len_u64(n).saturating_mul(32));
            let Ok(entry) = RawRegionTableEntry::read_from_bytes(entry) else {
                continue;
            };
            let guid = Uuid::from_bytes_le(entry.guid);
            let place = match guid {
                BAT => &mut bat,
                METADATA => &mut metadata,
                unknown if entry.required.get() & 1 == 1 => {
                    let reason =
                        format!("unsupported VHDX: it requires the unknown region {unknown}");
                    return Err(Error::unsupported(reason).at(entry_at));
                }
                _ => continue,
            };
            if place.replace(entry.region(entry_at)?).is_some() {
                let reason = format!("region {guid} is listed twice");
                return Err(Error::corrupt(reason).at(entry_at));
            }
        }
        let missing =
            |what: &str| Error::corrupt(format!("region table has no entry for the {what}")).at(at);
        Ok(Self {
            bat: bat.ok_or_else(|| missing("block allocation table"))?,
            metadata: metadata.ok_or_else(|| missing("metadata"))?,
        })
    }
}

impl Regions {
    /// Writes both copies of the table.
    pub(crate) fn write(&self, write: &mut WriteAt<'_>) -> Result<()> {
        let header = RawRegionTableHeader {
            signature: SIGNATURE,
            checksum: U32::ZERO,
            entry_count: U32::new(2),
            reserved: U32::ZERO,
        };
        let entries = [(BAT, self.bat), (METADATA, self.metadata)].map(|(guid, region)| {
            let len_bytes = u32::try_from(region.len_bytes);
            RawRegionTableEntry {
                guid: guid.to_bytes_le(),
                file_offset: U64::new(region.at),
                length: U32::new(len_bytes.unwrap_or(u32::MAX)),
                required: U32::new(1),
            }
        });
        let mut table = vec![0; TABLE_BYTES];
        bytes::put(&mut table, 0, header.as_bytes());
        bytes::put(&mut table, size_of_val(&header), entries.as_bytes());
        put_checksum(&mut table);
        COPIES_AT.into_iter().try_for_each(|at| write(at, &table))
    }
}

/// Returns the number of entries of a valid table.
fn entry_count(table: &[u8]) -> Option<u32> {
    let (raw, _) = RawRegionTableHeader::read_from_prefix(table).ok()?;
    let is_valid = raw.signature == SIGNATURE
        && raw.checksum.get() == checksum(table)
        && raw.entry_count.get() <= ENTRIES_MAX;
    is_valid.then_some(raw.entry_count.get())
}

impl RawRegionTableEntry {
    fn region(&self, entry_at: u64) -> Result<Region> {
        let (at, len_bytes) = (self.file_offset.get(), u64::from(self.length.get()));
        let is_aligned = at.is_multiple_of(MIB) && len_bytes.is_multiple_of(MIB);
        if !is_aligned || at < MIB || len_bytes == 0 {
            let reason = format!("invalid region of {len_bytes} bytes at {at:#x}");
            return Err(Error::corrupt(reason).at(entry_at));
        }
        Ok(Region { at, len_bytes })
    }
}
