//! The System Use Sharing Protocol (SUSP, IEEE P1281): entries in the system use area of directory
//! records.

mod ce;
mod er;
mod sp;

use crate::error::{Result, corrupt};

pub(crate) use er::names_rock_ridge;
pub(crate) use sp::{bytes_skipped, place as root_place};

/// The number of bytes before an entry's data: signature, length, version.
const HEADER_BYTES: usize = 4;

/// The maximum number of continuation areas, the limit of Linux (`RR_MAX_CE_ENTRIES`). More are
/// taken for a loop.
const MAX_AREAS: usize = 32;

/// Access to the blocks that have continuation areas.
pub(crate) trait Blocks {
    /// Returns the offset of a logical block in bytes.
    fn byte_of(&self, block: u32) -> u64;

    /// Reads `len` bytes of the device; `None` if they are not within it.
    fn metadata_at(&self, offset: u64, len: usize) -> Result<Option<Vec<u8>>>;
}

/// A SUSP entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) signature: [u8; 2],
    /// The bytes after the version.
    pub(crate) data: &'a [u8],
}

/// The entries of a directory record, including those of its continuation areas.
#[derive(Debug, Clone, Default)]
pub(crate) struct SystemUse {
    /// The concatenated entries.
    bytes: Vec<u8>,
}

impl SystemUse {
    /// Collects the entries of `area`, which belongs to the record at `place`, and of its
    /// continuations.
    pub(crate) fn gather(blocks: &impl Blocks, area: &[u8], place: u64) -> Result<Self> {
        let mut found = Self::default();
        let mut next = found.take(area, place)?;
        for _ in 0..MAX_AREAS {
            let Some(continuation) = next else {
                return Ok(found);
            };
            let area = continuation.read(blocks, place)?;
            next = found.take(&area, place)?;
        }
        Err(corrupt(
            "invalid system use area: more than 32 continuation areas, probably a loop",
            place,
        ))
    }

    /// Adds the entries of an area, and returns the area that continues it.
    fn take(&mut self, area: &[u8], place: u64) -> Result<Option<ce::ContinuationArea>> {
        let mut next = None;
        let mut rest = area;
        while let [_, _, length, ..] = rest {
            let length = usize::from(*length);
            if length < HEADER_BYTES {
                break; // The rest is padding.
            }
            let Some((entry, after)) = rest.split_at_checked(length) else {
                return Err(corrupt(
                    "invalid system use area: an entry ends after it",
                    place,
                ));
            };
            match entry {
                [b'S', b'T', ..] => break,
                [b'C', b'E', ..] => next = Some(ce::ContinuationArea::parse(entry, place)?),
                _ => self.bytes.extend_from_slice(entry),
            }
            rest = after;
        }
        Ok(next)
    }

    /// Returns the entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let length = usize::from(*rest.get(2)?);
            let (entry, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(Entry {
                signature: *entry.first_chunk()?,
                data: entry.get(HEADER_BYTES..)?,
            })
        })
    }

    /// Returns the data of all entries with a signature.
    pub(crate) fn all<'a>(&'a self, signature: &'a [u8; 2]) -> impl Iterator<Item = &'a [u8]> {
        self.entries()
            .filter(move |entry| entry.signature == *signature)
            .map(|entry| entry.data)
    }

    /// Returns the data of the first entry with a signature.
    pub(crate) fn first<'a>(&'a self, signature: &'a [u8; 2]) -> Option<&'a [u8]> {
        self.all(signature).next()
    }
}
