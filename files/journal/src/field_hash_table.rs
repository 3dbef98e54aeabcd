//! The field hash table: the names of all fields in a file.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#hash-table-objects>
//!
//! The table is searched as a whole, without computing hashes, because a file has only a few
//! hundred names.

use diskfs_block::{Error, Result, len_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::object::{Object, ObjectHeader, ObjectType};
use crate::reader::Reader;

/// The maximum size of the table: many times that of journald (333 buckets,
/// `DEFAULT_FIELD_HASH_TABLE_SIZE` of `journal-file.c`).
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// The maximum number of names: more than any file has.
const MAX_FIELDS: usize = 1 << 16;

/// A bucket of the table, `HashItem`.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Bucket {
    head_hash_offset: U64,
    tail_hash_offset: U64,
}

/// A field name, `FieldObject`.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    object: ObjectHeader,
    hash: U64,
    next_hash_offset: U64,
    head_data_offset: U64,
}

const RAW_BYTES: u64 = 40;

const _: () = assert!(size_of::<Raw>() == 40);

impl Object for Raw {
    const KIND: ObjectType = ObjectType::Field;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// Returns the offset of the newest value of a field; `None` if the file does not have the field.
pub(crate) fn newest_value(reader: &Reader, name: &[u8]) -> Result<Option<u64>> {
    let mut left = MAX_FIELDS;
    for head in heads(reader)? {
        let mut at = head;
        while at != 0 {
            left = left.checked_sub(1).ok_or_else(|| {
                Error::corrupt(format!(
                    "invalid field hash table: more than {MAX_FIELDS} names"
                ))
                .at(at)
            })?;
            let raw: Raw = reader.object(at)?;
            if has_name(reader, at, &raw, name)? {
                return Ok(Some(raw.head_data_offset.get()));
            }
            let next = raw.next_hash_offset.get();
            // New names are appended to the file and to the chain.
            if next != 0 && next <= at {
                return Err(Error::corrupt(
                    "invalid chain of fields: it leads to an earlier object",
                )
                .at(at));
            }
            at = next;
        }
    }
    Ok(None)
}

/// Returns the offset of the first field of each bucket.
fn heads(reader: &Reader) -> Result<Vec<u64>> {
    let header = &reader.header;
    let (offset, len) = (
        header.field_hash_table_offset,
        header.field_hash_table_bytes,
    );
    if len > MAX_TABLE_BYTES {
        let reason =
            format!("field hash table is too large: {len} bytes, at most {MAX_TABLE_BYTES}");
        return Err(Error::corrupt(reason).at(offset));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    reader.read(offset, &mut bytes)?;
    let buckets = bytes.chunks_exact(size_of::<Bucket>());
    let buckets = buckets.filter_map(|bytes| Bucket::ref_from_bytes(bytes).ok());
    let heads = buckets.map(|bucket| bucket.head_hash_offset.get());
    Ok(heads.filter(|head| *head != 0).collect())
}

fn has_name(reader: &Reader, offset: u64, raw: &Raw, name: &[u8]) -> Result<bool> {
    if raw.object.size.get() != RAW_BYTES.saturating_add(len_of(name)) {
        return Ok(false);
    }
    let mut found = vec![0; name.len()];
    reader.read(offset.saturating_add(RAW_BYTES), &mut found)?;
    Ok(found == name)
}
