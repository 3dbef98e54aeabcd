//! The System Use Sharing Protocol (SUSP, IEEE P1281): entries in what a directory record leaves to
//! the system.

mod ce;
mod er;
mod sp;

use crate::error::{Result, corrupt};

pub(crate) use er::names_rock_ridge;
pub(crate) use sp::{bytes_skipped, place as root_place};

/// Bytes of an entry before its data: signature, length, version.
const HEADER_BYTES: usize = 4;

/// Linux follows as many continuations (`RR_MAX_CE_ENTRIES`): more are a loop.
const MAX_AREAS: usize = 32;

/// The blocks that continuation areas are in.
pub(crate) trait Blocks {
    /// Returns the byte at which a logical block begins.
    fn byte_of(&self, block: u32) -> u64;

    /// Returns bytes of the device; `None` when they don't lie within it.
    fn metadata_at(&self, offset: u64, len: usize) -> Result<Option<Vec<u8>>>;
}

/// One entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) signature: [u8; 2],
    /// What comes after the version.
    pub(crate) data: &'a [u8],
}

/// All entries of a directory record, those of its continuation areas among them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SystemUse {
    /// Whole entries, one after the other.
    bytes: Vec<u8>,
}

impl SystemUse {
    /// Gathers the entries of `area`, which belongs to the record at `place`.
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
        Err(corrupt("more than 32 continuation areas: they loop", place))
    }

    /// Adds the entries of an area; returns where they go on.
    fn take(&mut self, area: &[u8], place: u64) -> Result<Option<ce::ContinuationArea>> {
        let mut next = None;
        let mut rest = area;
        while let [_, _, length, ..] = rest {
            let length = usize::from(*length);
            if length < HEADER_BYTES {
                break; // What is left is padding.
            }
            let Some((entry, after)) = rest.split_at_checked(length) else {
                return Err(corrupt("entry of a system use area ends behind it", place));
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

    /// The entries, in order.
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

    /// The data of those with a signature.
    pub(crate) fn all<'a>(&'a self, signature: &'a [u8; 2]) -> impl Iterator<Item = &'a [u8]> {
        self.entries()
            .filter(move |entry| entry.signature == *signature)
            .map(|entry| entry.data)
    }

    /// The data of the first of them.
    pub(crate) fn first<'a>(&'a self, signature: &'a [u8; 2]) -> Option<&'a [u8]> {
        self.all(signature).next()
    }
}
