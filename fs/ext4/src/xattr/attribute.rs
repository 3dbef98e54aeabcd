//! Attributes apart from where they are, and how they are laid out in an inode or a block: entries
//! from the start on, their values from the end.

use zerocopy::IntoBytes;

use super::entry::{Entries, Entry, HEADER_BYTES, RawEntry, Value};
use super::hash;
use crate::bytes::put;
use crate::error::Result;

/// Entries and values begin at multiples of 4 (`EXT4_XATTR_PAD`).
pub(super) const ALIGNMENT: usize = 4;
/// The zeroes behind the last entry.
const END_BYTES: usize = 4;

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) index: u8,
    /// Without the prefix that the index stands for.
    pub(super) name: Vec<u8>,
    pub(super) value: Stored,
}

/// How its value is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    Here(Vec<u8>),
    InInode(ValueInode),
}

/// A value in an inode of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueInode {
    pub(super) inode: u32,
    pub(super) size_bytes: u32,
    /// `e_hash`, in which the value's checksum is.
    pub(super) hash: u32,
}

impl Attribute {
    fn of(entry: &Entry<'_>) -> Self {
        let value = match entry.value {
            Value::Here(bytes) => Stored::Here(bytes.to_vec()),
            Value::InInode { inode, size_bytes } => Stored::InInode(ValueInode {
                inode,
                size_bytes,
                hash: entry.hash,
            }),
        };
        Self {
            index: entry.index,
            name: entry.name.to_vec(),
            value,
        }
    }

    /// All of an inode or a block.
    pub(super) fn all(entries: Entries<'_>) -> Result<Vec<Self>> {
        entries.map(|entry| Ok(Self::of(&entry?))).collect()
    }

    pub(super) fn is(&self, index: u8, name: &[u8]) -> bool {
        self.index == index && self.name == name
    }

    /// The inode that has its value.
    pub(super) fn value_inode(&self) -> Option<ValueInode> {
        match &self.value {
            Stored::Here(_) => None,
            Stored::InInode(value) => Some(*value),
        }
    }

    fn value_beside(&self) -> &[u8] {
        match &self.value {
            Stored::Here(bytes) => bytes,
            Stored::InInode(_) => &[],
        }
    }

    fn entry_bytes(&self) -> usize {
        HEADER_BYTES
            .saturating_add(self.name.len())
            .next_multiple_of(ALIGNMENT)
    }

    /// What its value takes beside the entry.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_beside().len().next_multiple_of(ALIGNMENT)
    }

    pub(super) fn has_value_beside(&self) -> bool {
        !self.value_beside().is_empty()
    }

    fn bytes(&self) -> usize {
        self.entry_bytes().saturating_add(self.value_bytes())
    }

    /// Where it has its place among others in a block: by index, then by length of the name, then
    /// by name.
    fn order(&self) -> (u8, usize, &[u8]) {
        (self.index, self.name.len(), &self.name)
    }

    /// `e_hash` in a block.
    fn hash(&self) -> u32 {
        match &self.value {
            Stored::Here(value) => hash::of_entry(&self.name, value),
            Stored::InInode(value) => value.hash,
        }
    }
}

/// How many bytes these take, with the end of the list.
pub(super) fn needed_bytes(attributes: &[Attribute]) -> usize {
    attributes
        .iter()
        .map(Attribute::bytes)
        .fold(END_BYTES, usize::saturating_add)
}

/// Brings them in the order that they have in a block.
pub(super) fn sort(attributes: &mut [Attribute]) {
    attributes.sort_by(|a, b| a.order().cmp(&b.order()));
}

/// What hashes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashes {
    /// For all entries, as in a block.
    All,
    /// For those whose value is in an inode, as within an inode.
    ValueInodes,
}

/// Puts them into `bytes` from `first` on; their values' offsets count from the start of `bytes`. There
/// is room for them.
pub(super) fn lay_out(attributes: &[Attribute], bytes: &mut [u8], first: usize, hashes: Hashes) {
    let mut start = first;
    let mut end = bytes.len() & !ALIGNMENT.wrapping_sub(1);
    for attribute in attributes {
        let value = attribute.value_beside();
        end = end.saturating_sub(value.len().next_multiple_of(ALIGNMENT));
        put(bytes, end, value);
        let raw = raw(attribute, end, hashes);
        put(bytes, start, raw.as_bytes());
        put(bytes, start.saturating_add(HEADER_BYTES), &attribute.name);
        start = start.saturating_add(attribute.entry_bytes());
    }
}

fn raw(attribute: &Attribute, value_at: usize, hashes: Hashes) -> RawEntry {
    let (inode, offset, size_bytes) = match &attribute.value {
        Stored::Here(value) if value.is_empty() => (0, 0, 0),
        Stored::Here(value) => (0, value_at, u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Stored::InInode(value) => (value.inode, 0, value.size_bytes),
    };
    let hash = match hashes {
        Hashes::ValueInodes => attribute.value_inode().map_or(0, |value| value.hash),
        Hashes::All => attribute.hash(),
    };
    RawEntry {
        e_name_len: u8::try_from(attribute.name.len()).unwrap_or(u8::MAX),
        e_name_index: attribute.index,
        e_value_offs: u16::try_from(offset).unwrap_or(0).into(),
        e_value_inum: inode.into(),
        e_value_size: size_bytes.into(),
        e_hash: hash.into(),
    }
}

/// `h_hash` of a block with these.
pub(super) fn block_hash(attributes: &[Attribute]) -> u32 {
    hash::of_block(attributes.iter().map(Attribute::hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Structure;

    fn attribute(index: u8, name: &[u8], value: &[u8]) -> Attribute {
        Attribute {
            index,
            name: name.to_vec(),
            value: Stored::Here(value.to_vec()),
        }
    }

    #[test]
    fn what_is_laid_out_is_read() {
        let mut all = vec![
            attribute(6, b"selinux", b"label"),
            attribute(1, b"bb", b""),
            attribute(1, b"b", &[7; 30]),
            attribute(1, b"aa", b"1234"),
        ];
        all.push(Attribute {
            value: Stored::InInode(ValueInode {
                inode: 77,
                size_bytes: 9000,
                hash: 5,
            }),
            ..attribute(1, b"large", b"")
        });
        sort(&mut all);
        let names: Vec<&[u8]> = all.iter().map(|a| &*a.name).collect();
        assert_eq!(names, [&b"b"[..], b"aa", b"bb", b"large", b"selinux"]);
        let len = 32 + needed_bytes(&all);
        let mut bytes = vec![0; len];
        lay_out(&all, &mut bytes, 32, Hashes::All);
        let entries = Entries::new(Structure::Inode(12), &bytes, 32);
        assert_eq!(Attribute::all(entries).unwrap(), all);
    }
}
