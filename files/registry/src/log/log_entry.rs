//! Log entries: pages that were changed together, protected by hashes. Specification, "Log
//! entries".

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::SECTOR_BYTES;
use crate::marvin32::{LOG_SEED, Marvin32};

const HEADER_BYTES: u64 = 40;
const REFERENCE_BYTES: u64 = 8;

/// The size of a page: hive bins data has a whole number of them.
const BIN_BYTES: u32 = 4096;

/// The number of bytes to read and hash at once.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: [u8; 4],
    size: U32,
    flags: U32,
    sequence_number: U32,
    hive_bins_data_size: U32,
    dirty_pages_count: U32,
    hash_1: U64,
    hash_2: U64,
}

/// A dirty page reference.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReference {
    offset: U32,
    size: U32,
}

/// A dirty page: its offset in the hive bins data, and its offset in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) to: u64,
    pub(super) len_bytes: u64,
    pub(super) from: u64,
}

/// A log entry with valid hashes and all of its pages.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) sequence_number: u32,
    pub(super) hive_bins_data_size: u32,
    pub(super) pages: Vec<Page>,
    /// The offset after the entry, where the next one can start.
    pub(super) end: u64,
}

impl LogEntry {
    /// Reads the entry at `offset`; `None` if there is no valid one.
    ///
    /// # Errors
    /// Those of [`BlockRead::read_at`].
    pub(super) fn read(log: &dyn BlockRead, offset: u64) -> Result<Option<Self>> {
        let Some(header) = read_within(log, offset, index(HEADER_BYTES))? else {
            return Ok(None);
        };
        let Ok((raw, _)) = Raw::ref_from_prefix(&header) else {
            return Ok(None);
        };
        let end = offset.saturating_add(u64::from(raw.size.get()));
        let is_right = is_sound(raw)
            && end <= log.size_bytes()
            && header
                .get(..32)
                .map(|hashed| Marvin32::of(LOG_SEED, hashed))
                == Some(raw.hash_2.get())
            && hash(log, offset.saturating_add(HEADER_BYTES), end)? == raw.hash_1.get();
        let pages = if is_right {
            pages(log, raw, offset)?
        } else {
            None
        };
        Ok(pages.map(|pages| Self {
            sequence_number: raw.sequence_number.get(),
            hive_bins_data_size: raw.hive_bins_data_size.get(),
            pages,
            end,
        }))
    }
}

fn is_sound(raw: &Raw) -> bool {
    let size = u64::from(raw.size.get());
    let references = u64::from(raw.dirty_pages_count.get()).saturating_mul(REFERENCE_BYTES);
    let bins_bytes = raw.hive_bins_data_size.get();
    raw.signature == *b"HvLE"
        && size.is_multiple_of(SECTOR_BYTES)
        && references.saturating_add(HEADER_BYTES) <= size
        && bins_bytes > 0
        && bins_bytes.is_multiple_of(BIN_BYTES)
}

/// Computes the hash of a range of the log.
fn hash(log: &dyn BlockRead, start: u64, end: u64) -> Result<u64> {
    let mut hash = Marvin32::new(LOG_SEED);
    let mut at = start;
    let mut chunk = vec![0; CHUNK_BYTES];
    while at < end {
        let len = index(end.saturating_sub(at)).min(CHUNK_BYTES);
        let Some(chunk) = chunk.get_mut(..len) else {
            break;
        };
        log.read_at(at, chunk)?;
        hash.update(chunk);
        at = at.saturating_add(diskfs_block::len_of(chunk));
    }
    Ok(hash.finish())
}

/// Reads the pages of an entry, which follow the references in the same order. Returns `None` if
/// one of them is outside of the entry or the hive bins data.
fn pages(log: &dyn BlockRead, raw: &Raw, offset: u64) -> Result<Option<Vec<Page>>> {
    let start = offset.saturating_add(HEADER_BYTES);
    let end = offset.saturating_add(u64::from(raw.size.get()));
    let bins_bytes = u64::from(raw.hive_bins_data_size.get());
    let len = u64::from(raw.dirty_pages_count.get()).saturating_mul(REFERENCE_BYTES);
    let references = read_within(log, start, index(len))?.unwrap_or_default();
    let Ok(references) = <[RawReference]>::ref_from_bytes(&references) else {
        return Ok(None);
    };
    let mut from = start.saturating_add(len);
    let mut pages = Vec::with_capacity(references.len());
    for reference in references {
        let page = Page {
            to: u64::from(reference.offset.get()),
            len_bytes: u64::from(reference.size.get()),
            from,
        };
        from = from.saturating_add(page.len_bytes);
        let is_within = from <= end && page.to.saturating_add(page.len_bytes) <= bins_bytes;
        let is_whole =
            page.to.is_multiple_of(SECTOR_BYTES) && page.len_bytes.is_multiple_of(SECTOR_BYTES);
        if !is_within || !is_whole {
            return Ok(None);
        }
        pages.push(page);
    }
    Ok(Some(pages))
}
