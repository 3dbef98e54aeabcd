//! The metadata table: MS-VHDX 2.6.1.

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::region_table::Region;

pub(crate) const TABLE_BYTES: usize = 64 << 10;
const SIGNATURE: [u8; 8] = *b"metadata";
/// The largest number of entries (specification, `EntryCount`).
const ENTRIES_MAX: u16 = 2047;
const IS_USER: u32 = 1;
/// The item describes the disk and not the file.
pub(crate) const IS_VIRTUAL_DISK: u32 = 2;
pub(crate) const IS_REQUIRED: u32 = 4;

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMetadataTableHeader {
    signature: [u8; 8],
    reserved: U16,
    entry_count: U16,
    reserved2: [u8; 20],
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMetadataTableEntry {
    item_id: [u8; 16],
    offset: U32,
    length: U32,
    flags: U32,
    reserved2: U32,
}

/// A metadata item of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub(crate) id: Uuid,
    /// The offset in the file in bytes.
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
    pub(crate) is_required: bool,
}

/// An item to write.
#[derive(Debug)]
pub(crate) struct NewItem {
    pub(crate) id: Uuid,
    pub(crate) flags: u32,
    pub(crate) value: Vec<u8>,
}

/// Returns the start of a metadata region: the table, with the items behind it.
pub(crate) fn encode(items: &[NewItem]) -> Vec<u8> {
    let header = RawMetadataTableHeader {
        signature: SIGNATURE,
        reserved: U16::ZERO,
        entry_count: U16::new(u16::try_from(items.len()).unwrap_or(ENTRIES_MAX)),
        reserved2: [0; 20],
    };
    let mut region = vec![0; TABLE_BYTES];
    bytes::put(&mut region, 0, header.as_bytes());
    let places = (size_of_val(&header)..).step_by(size_of::<RawMetadataTableEntry>());
    for (item, place) in items.iter().zip(places) {
        let number = |len: usize| U32::new(u32::try_from(len).unwrap_or(u32::MAX));
        let entry = RawMetadataTableEntry {
            item_id: item.id.to_bytes_le(),
            offset: number(region.len()),
            length: number(item.value.len()),
            flags: U32::new(item.flags),
            reserved2: U32::ZERO,
        };
        bytes::put(&mut region, place, entry.as_bytes());
        region.extend_from_slice(&item.value);
    }
    region
}

/// Reads the system's entries of the table in the metadata region.
pub(crate) fn read(file: &dyn BlockRead, region: Region) -> Result<Vec<Item>> {
    let bytes = read_within(file, region.at, TABLE_BYTES)?;
    let Some(table) = bytes else {
        return Err(Error::corrupt("metadata is past the end of the file").at(region.at));
    };
    let count = match RawMetadataTableHeader::read_from_prefix(&table) {
        Ok((raw, _)) if raw.signature == SIGNATURE => raw.entry_count.get(),
        _ => return Err(Error::corrupt("signature of the metadata is missing").at(region.at)),
    };
    if count > ENTRIES_MAX {
        let reason = format!("metadata has {count} entries, at most {ENTRIES_MAX}");
        return Err(Error::corrupt(reason).at(region.at.saturating_add(10)));
    }
    let entries = table
        .get(size_of::<RawMetadataTableHeader>()..)
        .unwrap_or_default();
    let entries = entries.chunks_exact(size_of::<RawMetadataTableEntry>());
    let entries = entries.filter_map(|entry| RawMetadataTableEntry::read_from_bytes(entry).ok());
    let entries = entries.take(usize::from(count)).enumerate();
    let items = entries.filter(|(_, entry)| entry.flags.get() & IS_USER == 0);
    items
        .map(|(n, entry)| {
            let at = region.at.saturating_add(32);
            entry.item(
                region,
                at.saturating_add(bytes::len_u64(n).saturating_mul(32)),
            )
        })
        .collect()
}

impl RawMetadataTableEntry {
    fn item(&self, region: Region, entry_at: u64) -> Result<Item> {
        let (offset, len_bytes) = (u64::from(self.offset.get()), u64::from(self.length.get()));
        let id = Uuid::from_bytes_le(self.item_id);
        if offset.saturating_add(len_bytes) > region.len_bytes {
            let reason = format!("metadata item {id} does not lie within its region");
            return Err(Error::corrupt(reason).at(entry_at));
        }
        Ok(Item {
            id,
            at: region.at.saturating_add(offset),
            len_bytes,
            is_required: self.flags.get() & IS_REQUIRED != 0,
        })
    }
}
