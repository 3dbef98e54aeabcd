//! `DataObject`: a field with its value, such as `MESSAGE=text`. Entries with the same value share
//! one object. <https://systemd.io/JOURNAL_FILE_FORMAT/#data-objects>

use diskfs_block::{Error, Result, len_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::compression::{Compression, decompress};
use crate::object::{Object, ObjectHeader, ObjectType};
use crate::reader::Reader;
use crate::stored::StoredPayload;

/// The size of the largest field, name and value together: `DATA_SIZE_MAX` of systemd's
/// `journal-importer.h`.
pub const DATA_SIZE_MAX: u64 = 768 << 20;

/// The length of the longest field name (`journal_field_valid` of systemd's `journal-file.c`).
const MAX_NAME_BYTES: usize = 64;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Raw {
    object: ObjectHeader,
    hash: U64,
    next_hash_offset: U64,
    /// The offset of the previous value of the same field.
    pub(crate) next_field_offset: U64,
    /// The offset of the first entry with this value.
    pub(crate) entry_offset: U64,
    /// The offset of the entry array with the other entries.
    pub(crate) entry_array_offset: U64,
    pub(crate) n_entries: U64,
}

/// The size of the fixed part. Compact files have two more fields of 32 bits before the payload.
const RAW_BYTES: u64 = 64;
const COMPACT_BYTES: u64 = 72;

const _: () = assert!(size_of::<Raw>() == 64);

impl Object for Raw {
    const KIND: ObjectType = ObjectType::Data;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// A field of an entry: a name and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    bytes: Vec<u8>,
    /// The length of the name, which is followed by `=`.
    name_len: usize,
    is_truncated: bool,
}

impl Field {
    /// Returns the name: upper-case letters, digits and underscores, as in `_SYSTEMD_UNIT`.
    pub fn name(&self) -> &[u8] {
        self.bytes.get(..self.name_len).unwrap_or_default()
    }

    /// Returns the value. It is usually text, but can contain any bytes.
    pub fn value(&self) -> &[u8] {
        let after = self.name_len.saturating_add(1);
        self.bytes.get(after..).unwrap_or_default()
    }

    /// Returns true if the value is longer than the limit with which it was read.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    fn new(bytes: Vec<u8>, is_truncated: bool) -> Option<Self> {
        let longest = MAX_NAME_BYTES.saturating_add(1);
        let name_len = bytes.iter().take(longest).position(|byte| *byte == b'=')?;
        let field = Self {
            bytes,
            name_len,
            is_truncated,
        };
        is_name(field.name()).then_some(field)
    }
}

/// Returns true if a field can have this name (`journal_field_valid`, including names that only
/// journald may set).
fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let starts_well = name.first().is_some_and(|byte| !byte.is_ascii_digit());
    starts_well && name.iter().all(is_part)
}

/// The number of bytes to read first. Most fields are shorter.
const FIRST_READ_BYTES: usize = 256;

/// Reads the field at `offset`, with up to `limit_bytes` of its value.
pub(crate) fn read(reader: &Reader, offset: u64, limit_bytes: u64) -> Result<Field> {
    let mut first = [0; FIRST_READ_BYTES];
    let (raw, rest) = reader.object_with::<Raw>(offset, &mut first)?;
    let head_bytes = if reader.is_compact() {
        COMPACT_BYTES
    } else {
        RAW_BYTES
    };
    let more = head_bytes.saturating_sub(RAW_BYTES);
    let stored = StoredPayload {
        reader,
        offset: offset.saturating_add(head_bytes),
        len: raw.object.size.get().saturating_sub(head_bytes),
    };
    let longest_name = len_of(&[0; MAX_NAME_BYTES]).saturating_add(1);
    let limit = limit_bytes.min(DATA_SIZE_MAX).saturating_add(longest_name);
    let start = usize::try_from(more).unwrap_or(0);
    let inline = usize::try_from(stored.len).ok();
    let inline = inline.and_then(|len| rest.get(start..start.checked_add(len)?));
    let (bytes, is_truncated) = match (Compression::of(raw.object.flags), inline) {
        (Ok(None), Some(bytes)) => (bytes.to_vec(), false),
        (Ok(None), None) => stored.plain(limit)?,
        (Ok(Some(compression)), _) => decompress(compression, &stored, limit)?,
        (Err(error), _) => return Err(error.at(offset)),
    };
    let field = Field::new(bytes, is_truncated);
    let mut field =
        field.ok_or_else(|| Error::corrupt("invalid field: missing name").at(offset))?;
    field.limit(limit_bytes);
    Ok(field)
}

impl Field {
    fn limit(&mut self, limit_bytes: u64) {
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let end = self.name_len.saturating_add(1).saturating_add(limit);
        if end < self.bytes.len() {
            self.bytes.truncate(end);
            self.is_truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_journald_takes() {
        let field = |bytes: &[u8]| Field::new(bytes.to_vec(), false);
        let message = field(b"MESSAGE=a=b").unwrap();
        assert_eq!(
            (message.name(), message.value()),
            (&b"MESSAGE"[..], &b"a=b"[..])
        );
        assert!(field(b"_PID=").is_some_and(|field| field.value().is_empty()));
        let long = [b"A".repeat(64), b"=x".to_vec()].concat();
        assert!(field(&long).is_some());
        let longer = [b"A".repeat(65), b"=x".to_vec()].concat();
        for wrong in [
            &b"=x"[..],
            b"MESSAGE",
            b"",
            b"a=b",
            b"1A=b",
            b"A\x1b=b",
            &longer,
        ] {
            assert!(field(wrong).is_none(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let mut field = Field::new(b"A=12345".to_vec(), false).unwrap();
        field.limit(5);
        assert!(!field.is_truncated());
        field.limit(4);
        assert_eq!((field.value(), field.is_truncated()), (&b"1234"[..], true));
    }
}
