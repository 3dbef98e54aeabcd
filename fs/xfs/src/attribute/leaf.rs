//! Leaves of attributes: entries sorted by hash, and names and values from the end of the block.
//!
//! Source: "XFS Algorithms & Data Structures", section "Leaf Attributes".

use crate::bytes::{array, be16, be32, index, part};
use crate::superblock::Superblock;

use super::Attribute;

/// The length of the header in version 4 and 5.
const HEADER_BYTES: usize = 32;
const HEADER_V5_BYTES: usize = 80;
/// The length of an entry: hash, offset, flags, padding.
const ENTRY_BYTES: usize = 8;
/// `XFS_ATTR_LOCAL`: the value is in the leaf.
const LOCAL: u8 = 0x01;

/// The place of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Local(&'a [u8]),
    /// In blocks of the attribute fork.
    Remote {
        file_block: u64,
        len_bytes: usize,
    },
}

/// A block whose identity was checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf<'a> {
    bytes: &'a [u8],
    start: usize,
    pub(super) count: usize,
}

impl<'a> Leaf<'a> {
    pub(super) fn of(superblock: &Superblock, bytes: &'a [u8]) -> Self {
        let (start, count_offset) = if superblock.has_checksums() {
            (HEADER_V5_BYTES, 56)
        } else {
            (HEADER_BYTES, 12)
        };
        Self {
            bytes,
            start,
            count: be16(bytes, count_offset).unwrap_or(0).into(),
        }
    }

    /// Checks that all entries are valid, and that their hashes do not decrease.
    pub(super) fn check(&self) -> Option<()> {
        let mut last = 0;
        for nth in 0..self.count {
            let hash = self.hash(nth)?;
            self.attribute(nth)?;
            if hash < last {
                return None;
            }
            last = hash;
        }
        Some(())
    }

    /// Returns the block that follows; 0 if this is the last one.
    pub(super) fn forward(&self) -> u32 {
        be32(self.bytes, 0).unwrap_or(0)
    }

    pub(super) fn hash(&self, nth: usize) -> Option<u32> {
        be32(self.bytes, self.entry(nth)?)
    }

    fn entry(&self, nth: usize) -> Option<usize> {
        let within = nth.checked_mul(ENTRY_BYTES)?;
        (nth < self.count).then_some(self.start.checked_add(within)?)
    }

    /// Returns the `nth` attribute.
    pub(super) fn attribute(&self, nth: usize) -> Option<Attribute<'a>> {
        let entry = self.entry(nth)?;
        let at = usize::from(be16(self.bytes, entry.checked_add(4)?)?);
        let [flags] = array(self.bytes, entry.checked_add(6)?)?;
        let (name, value) = if flags & LOCAL != 0 {
            self.local(at)?
        } else {
            self.remote(at)?
        };
        (!name.is_empty()).then_some(Attribute { flags, name, value })
    }

    /// Parses `xfs_attr_leaf_name_local`.
    fn local(&self, at: usize) -> Option<(&'a [u8], Value<'a>)> {
        let value_len = usize::from(be16(self.bytes, at)?);
        let [name_len] = array(self.bytes, at.checked_add(2)?)?;
        let name = part(self.bytes, at.checked_add(3)?, name_len.into())?;
        let value_start = at.checked_add(3)?.checked_add(name.len())?;
        Some((
            name,
            Value::Local(part(self.bytes, value_start, value_len)?),
        ))
    }

    /// Parses `xfs_attr_leaf_name_remote`.
    fn remote(&self, at: usize) -> Option<(&'a [u8], Value<'a>)> {
        let value = Value::Remote {
            file_block: be32(self.bytes, at)?.into(),
            len_bytes: index(be32(self.bytes, at.checked_add(4)?)?),
        };
        let [name_len] = array(self.bytes, at.checked_add(8)?)?;
        let name = part(self.bytes, at.checked_add(9)?, name_len.into())?;
        Some((name, value))
    }
}
