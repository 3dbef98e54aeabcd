//! `DataObject`: a field and its value, `MESSAGE=text`, which any number of entries share.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#data-objects>

use diskfs_block::{Error, Result, len_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::compression::{Compression, unpack};
use crate::object::{Kind, Object, ObjectHeader};
use crate::reader::Reader;
use crate::stored::Stored;

/// No field of an entry is larger, name and value together: `DATA_SIZE_MAX` of systemd's `journal-importer.h`.
pub const DATA_SIZE_MAX: u64 = 768 << 20;

/// No name is longer (`journal_field_valid` of systemd's `journal-file.c`).
const MAX_NAME_BYTES: usize = 64;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Raw {
    object: ObjectHeader,
    hash: U64,
    next_hash_offset: U64,
    /// The value of the same field that came up before this one.
    pub(crate) next_field_offset: U64,
    /// The first entry that has it.
    pub(crate) entry_offset: U64,
    /// The others.
    pub(crate) entry_array_offset: U64,
    pub(crate) n_entries: U64,
}

/// Of the fixed part; compact files have two more fields of 32 bits before the payload.
const RAW_BYTES: u64 = 64;
const COMPACT_BYTES: u64 = 72;

const _: () = assert!(size_of::<Raw>() == 64);

impl Object for Raw {
    const KIND: Kind = Kind::Data;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// A field of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    bytes: Vec<u8>,
    /// How long the name is; it is followed by `=`.
    name_len: usize,
    is_cut: bool,
}

impl Field {
    /// The name: letters, digits and underscores, as `_SYSTEMD_UNIT`.
    pub fn name(&self) -> &[u8] {
        self.bytes.get(..self.name_len).unwrap_or_default()
    }

    /// The value: text as a rule, but any bytes may be in it.
    pub fn value(&self) -> &[u8] {
        let after = self.name_len.saturating_add(1);
        self.bytes.get(after..).unwrap_or_default()
    }

    /// Whether the value goes on behind what was asked for.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn new(bytes: Vec<u8>, is_cut: bool) -> Option<Self> {
        let longest = MAX_NAME_BYTES.saturating_add(1);
        let name_len = bytes.iter().take(longest).position(|byte| *byte == b'=')?;
        let field = Self {
            bytes,
            name_len,
            is_cut,
        };
        is_name(field.name()).then_some(field)
    }
}

/// `journal_field_valid`, for fields that only journald may set, too.
fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let starts_well = name.first().is_some_and(|byte| !byte.is_ascii_digit());
    starts_well && name.iter().all(is_part)
}

/// How much is read at once: most fields are shorter.
const FIRST_READ_BYTES: usize = 256;

/// The field at `offset`, with `limit_bytes` of its value.
pub(crate) fn read(reader: &Reader, offset: u64, limit_bytes: u64) -> Result<Field> {
    let mut first = [0; FIRST_READ_BYTES];
    let (raw, rest) = reader.object_with::<Raw>(offset, &mut first)?;
    let head_bytes = if reader.is_compact() {
        COMPACT_BYTES
    } else {
        RAW_BYTES
    };
    let more = head_bytes.saturating_sub(RAW_BYTES);
    let stored = Stored {
        reader,
        offset: offset.saturating_add(head_bytes),
        len: raw.object.size.get().saturating_sub(head_bytes),
    };
    let longest_name = len_of(&[0; MAX_NAME_BYTES]).saturating_add(1);
    let limit = limit_bytes.min(DATA_SIZE_MAX).saturating_add(longest_name);
    let start = usize::try_from(more).unwrap_or(0);
    let inline = usize::try_from(stored.len).ok();
    let inline = inline.and_then(|len| rest.get(start..start.checked_add(len)?));
    let (bytes, is_cut) = match (Compression::of(raw.object.flags), inline) {
        (Ok(None), Some(bytes)) => (bytes.to_vec(), false),
        (Ok(None), None) => stored.plain(limit)?,
        (Ok(Some(compression)), _) => unpack(compression, &stored, limit)?,
        (Err(error), _) => return Err(error.at(offset)),
    };
    let field = Field::new(bytes, is_cut);
    let mut field = field.ok_or_else(|| Error::corrupt("a field without a name").at(offset))?;
    field.limit(limit_bytes);
    Ok(field)
}

impl Field {
    fn limit(&mut self, limit_bytes: u64) {
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let end = self.name_len.saturating_add(1).saturating_add(limit);
        if end < self.bytes.len() {
            self.bytes.truncate(end);
            self.is_cut = true;
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
        assert!(!field.is_cut());
        field.limit(4);
        assert_eq!((field.value(), field.is_cut()), (&b"1234"[..], true));
    }
}
