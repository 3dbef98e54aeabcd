//! Attributes independent of their place, and their layout in an inode or a block: entries from the
//! start on, their values from the end.

use zerocopy::IntoBytes;

use super::entry::{Entries, Entry, HEADER_BYTES, RawEntry, Value};
use super::hash;
use crate::bytes::put;
use crate::error::Result;

/// The alignment of entries and values (`EXT4_XATTR_PAD`).
pub(super) const ALIGNMENT: usize = 4;
/// The size of the zeroes after the last entry.
const END_BYTES: usize = 4;

/// An extended attribute with its value, independent of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) index: u8,
    /// The name without the prefix that the index stands for.
    pub(super) name: Vec<u8>,
    pub(super) value: ValuePlace,
}

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValuePlace {
    Here(Vec<u8>),
    InInode(ValueInode),
}

/// A value in an inode of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueInode {
    pub(super) inode: u32,
    pub(super) size_bytes: u32,
    /// `e_hash`, which includes the value's checksum.
    pub(super) hash: u32,
}

impl Attribute {
    fn of(entry: &Entry<'_>) -> Self {
        let value = match entry.value {
            Value::Here(bytes) => ValuePlace::Here(bytes.to_vec()),
            Value::InInode { inode, size_bytes } => ValuePlace::InInode(ValueInode {
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

    /// Returns all attributes of an inode or a block.
    pub(super) fn all(entries: Entries<'_>) -> Result<Vec<Self>> {
        entries.map(|entry| Ok(Self::of(&entry?))).collect()
    }

    pub(super) fn is(&self, index: u8, name: &[u8]) -> bool {
        self.index == index && self.name == name
    }

    /// Returns the inode that contains the value.
    pub(super) fn value_inode(&self) -> Option<ValueInode> {
        match &self.value {
            ValuePlace::Here(_) => None,
            ValuePlace::InInode(value) => Some(*value),
        }
    }

    fn local_value(&self) -> &[u8] {
        match &self.value {
            ValuePlace::Here(bytes) => bytes,
            ValuePlace::InInode(_) => &[],
        }
    }

    fn entry_bytes(&self) -> usize {
        HEADER_BYTES
            .saturating_add(self.name.len())
            .next_multiple_of(ALIGNMENT)
    }

    /// Returns the size of the value beside the entry.
    pub(super) fn value_bytes(&self) -> usize {
        self.local_value().len().next_multiple_of(ALIGNMENT)
    }

    pub(super) fn has_local_value(&self) -> bool {
        !self.local_value().is_empty()
    }

    fn bytes(&self) -> usize {
        self.entry_bytes().saturating_add(self.value_bytes())
    }

    /// Returns the sort key in a block: by index, then by length of the name, then by name.
    fn order(&self) -> (u8, usize, &[u8]) {
        (self.index, self.name.len(), &self.name)
    }

    /// Returns `e_hash` as in a block.
    fn hash(&self) -> u32 {
        match &self.value {
            ValuePlace::Here(value) => hash::of_entry(&self.name, value),
            ValuePlace::InInode(value) => value.hash,
        }
    }
}

/// Returns how many bytes these attributes need, including the end of the list.
pub(super) fn needed_bytes(attributes: &[Attribute]) -> usize {
    attributes
        .iter()
        .map(Attribute::bytes)
        .fold(END_BYTES, usize::saturating_add)
}

/// Sorts attributes in the order of a block.
pub(super) fn sort(attributes: &mut [Attribute]) {
    attributes.sort_by(|a, b| a.order().cmp(&b.order()));
}

/// The entries that have a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashes {
    /// All entries, as in a block.
    All,
    /// Only those whose value is in an inode, as within an inode.
    ValueInodes,
}

/// Writes attributes into `bytes` from `first` on; their values' offsets count from the start of
/// `bytes`. They fit.
pub(super) fn lay_out(attributes: &[Attribute], bytes: &mut [u8], first: usize, hashes: Hashes) {
    let mut start = first;
    let mut end = bytes.len() & !ALIGNMENT.wrapping_sub(1);
    for attribute in attributes {
        let value = attribute.local_value();
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
        ValuePlace::Here(value) if value.is_empty() => (0, 0, 0),
        ValuePlace::Here(value) => (0, value_at, u32::try_from(value.len()).unwrap_or(u32::MAX)),
        ValuePlace::InInode(value) => (value.inode, 0, value.size_bytes),
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

/// Returns `h_hash` of a block with these attributes.
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
            value: ValuePlace::Here(value.to_vec()),
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
            value: ValuePlace::InInode(ValueInode {
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
