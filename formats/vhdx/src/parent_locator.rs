//! The parent locator: MS-VHDX 2.6.2.6.

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::file_type::utf16;
use crate::metadata_table::Item;

/// The only type: the parent is another VHDX.
const VHDX_LOCATOR: &str = "b04aefb7-d19e-4a81-b789-25b8e9445913";
/// The largest locator: all keys of the specification, with three paths of 4096 UTF-16 units, take
/// less than half of it.
const LOCATOR_MAX_BYTES: u64 = 64 << 10;
/// The largest number of pairs. The specification has five keys.
const PAIRS_MAX: u16 = 32;

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawParentLocatorHeader {
    locator_type: [u8; 16],
    reserved: U16,
    key_value_count: U16,
}

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawParentLocatorEntry {
    key_offset: U32,
    value_offset: U32,
    key_length: U16,
    value_length: U16,
}

/// The parent of a differencing disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The name as the image spells it: a Windows path, relative to the image if it stores such
    /// one.
    pub name: String,
    /// The identifiers of the parent's data that are accepted: one or two.
    pub linkage: Vec<Uuid>,
}

impl Parent {
    pub(crate) fn read(file: &dyn BlockRead, item: &Item) -> Result<Self> {
        let corrupt = |reason: &'static str| Error::corrupt(reason).at(item.at);
        if item.len_bytes > LOCATOR_MAX_BYTES {
            let len = item.len_bytes;
            let reason = format!("parent locator of {len} bytes, at most {LOCATOR_MAX_BYTES}");
            return Err(Error::unsupported(reason).at(item.at));
        }
        let bytes = read_within(file, item.at, bytes::index(item.len_bytes))?;
        let bytes = bytes.ok_or_else(|| corrupt("parent locator is past the end of the file"))?;
        let pairs = pairs(&bytes).map_err(|e| e.at(item.at))?;
        let value = |key: &str| {
            let pair = pairs.iter().find(|(found, _)| found == key);
            pair.map(|(_, value)| value.as_str())
        };
        let linkage = ["parent_linkage", "parent_linkage2"].into_iter();
        let linkage: Vec<Uuid> = linkage.filter_map(|key| value(key)?.parse().ok()).collect();
        if linkage.is_empty() {
            return Err(corrupt("parent locator has no identifier of the parent"));
        }
        let mut paths = ["relative_path", "volume_path", "absolute_win32_path"].into_iter();
        let name = paths.find_map(value);
        let name = name.ok_or_else(|| corrupt("parent locator has no name of the parent"))?;
        Ok(Self {
            name: name.to_owned(),
            linkage,
        })
    }
}

/// Returns the keys and values of a locator.
fn pairs(locator: &[u8]) -> Result<Vec<(String, String)>> {
    let (raw, entries) = RawParentLocatorHeader::read_from_prefix(locator)
        .map_err(|_| Error::corrupt("truncated parent locator"))?;
    let kind = Uuid::from_bytes_le(raw.locator_type);
    if kind.to_string() != VHDX_LOCATOR {
        let reason = format!("unsupported type {kind} of the parent locator");
        return Err(Error::unsupported(reason));
    }
    let count = raw.key_value_count.get();
    if count > PAIRS_MAX {
        let reason = format!("parent locator has {count} entries, at most {PAIRS_MAX}");
        return Err(Error::unsupported(reason));
    }
    let entries = entries.chunks_exact(size_of::<RawParentLocatorEntry>());
    let entries = entries.filter_map(|entry| RawParentLocatorEntry::read_from_bytes(entry).ok());
    let text = |at: U32, len: U16| -> Result<String> {
        let text = bytes::part(locator, bytes::index(at.get()), usize::from(len.get()));
        let text = text.ok_or_else(|| Error::corrupt("parent locator entry is past its end"))?;
        Ok(utf16(text))
    };
    entries
        .take(usize::from(count))
        .map(|entry| {
            let key = text(entry.key_offset, entry.key_length)?;
            text(entry.value_offset, entry.value_length).map(|value| (key, value))
        })
        .collect()
}
