//! `EntryArrayObject`: the offsets of entries in order, and the link to the next array.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#entry-array-objects>

use diskfs_block::{Result, len_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::object::{Object, ObjectHeader, ObjectType};
use crate::reader::Reader;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Raw {
    object: ObjectHeader,
    next_entry_array_offset: U64,
}

const _: () = assert!(size_of::<Raw>() == 24);

impl Object for Raw {
    const KIND: ObjectType = ObjectType::EntryArray;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// An entry array that is completely within the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryArray {
    items_offset: u64,
    item_bytes: u64,
    /// The number of items, used and unused.
    pub(crate) capacity: u64,
    /// The offset after the object.
    pub(crate) end: u64,
    /// The offset of the next array; 0 if there is none.
    pub(crate) next: u64,
}

impl EntryArray {
    pub(crate) fn read(reader: &Reader, offset: u64) -> Result<Self> {
        let raw: Raw = reader.object(offset)?;
        let item_bytes = if reader.is_compact() { 4 } else { 8 };
        let size = raw.object.size.get();
        let head = len_of(raw.as_bytes());
        let items = size.saturating_sub(head).checked_div(item_bytes);
        Ok(Self {
            items_offset: offset.saturating_add(head),
            item_bytes,
            capacity: items.unwrap_or(0),
            end: offset.saturating_add(size),
            next: raw.next_entry_array_offset.get(),
        })
    }

    /// Returns item `number`: the offset of an entry, or 0 if the item is unused.
    pub(crate) fn item(&self, reader: &Reader, number: u64) -> Result<u64> {
        let at = number.saturating_mul(self.item_bytes);
        read_item(reader, self.items_offset.saturating_add(at))
    }
}

/// Reads an offset from a list: 32 bits in compact files, otherwise 64.
fn read_item(reader: &Reader, offset: u64) -> Result<u64> {
    if reader.is_compact() {
        let mut item = [0; 4];
        reader.read(offset, &mut item)?;
        return Ok(u32::from_le_bytes(item).into());
    }
    let mut item = [0; 8];
    reader.read(offset, &mut item)?;
    Ok(u64::from_le_bytes(item))
}
