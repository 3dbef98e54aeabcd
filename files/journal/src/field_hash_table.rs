//! The field hash table: the names that the fields of a file have.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#hash-table-objects>
//!
//! It is looked through as a whole: a file has a few hundred names, and so no hash is computed.

use diskfs_block::{Error, Result, len_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::object::{Kind, Object, ObjectHeader};
use crate::reader::Reader;

/// Many times what journald makes (333 buckets, `DEFAULT_FIELD_HASH_TABLE_SIZE` of `journal-file.c`).
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// More names than any file has.
const MAX_FIELDS: usize = 1 << 16;

/// `HashItem`.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Bucket {
    head_hash_offset: U64,
    tail_hash_offset: U64,
}

/// `FieldObject`.
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
    const KIND: Kind = Kind::Field;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// Where the newest value of the field of this name is, if there is one.
pub(crate) fn newest_value(reader: &Reader, name: &[u8]) -> Result<Option<u64>> {
    let mut left = MAX_FIELDS;
    for head in heads(reader)? {
        let mut at = head;
        while at != 0 {
            left = left.checked_sub(1).ok_or_else(|| {
                Error::corrupt(format!("more than {MAX_FIELDS} names of fields")).at(at)
            })?;
            let raw: Raw = reader.object(at)?;
            if has_name(reader, at, &raw, name)? {
                return Ok(Some(raw.head_data_offset.get()));
            }
            let next = raw.next_hash_offset.get();
            // Names are added at the end of the file, and of the chain.
            if next != 0 && next <= at {
                return Err(Error::corrupt("a chain of fields that goes back").at(at));
            }
            at = next;
        }
    }
    Ok(None)
}

/// Where the chain of each bucket begins.
fn heads(reader: &Reader) -> Result<Vec<u64>> {
    let header = &reader.header;
    let (offset, len) = (
        header.field_hash_table_offset,
        header.field_hash_table_bytes,
    );
    if len > MAX_TABLE_BYTES {
        let reason = format!("a field hash table of {len} bytes");
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
