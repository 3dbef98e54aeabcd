//! The names in items: entries of directories, attributes, and references from inodes.

use crate::bytes::{index, le16, le64, low32, part};
use crate::checksum::name_hash;
use crate::key::{KEY_BYTES, Key, item};

/// The lengths of the fields before a name.
const DIR_HEAD_BYTES: usize = 30;
const REF_HEAD_BYTES: usize = 10;
const EXTREF_HEAD_BYTES: usize = 18;

/// An entry of a directory, or an attribute (`struct btrfs_dir_item`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirName {
    pub(super) location: Key,
    pub(super) transid: u64,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) type_number: u8,
}

impl DirName {
    /// Parses all names of an item; `None` if one doesn't fit into it.
    pub(super) fn parse_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let value_len = index(le16(bytes, 25)?);
            let name_len = index(le16(bytes, 27)?);
            let value_at = DIR_HEAD_BYTES.checked_add(name_len)?;
            all.push(Self {
                location: Key::parse(bytes, 0)?,
                transid: le64(bytes, KEY_BYTES)?,
                name: part(bytes, DIR_HEAD_BYTES, name_len)?.to_vec(),
                value: part(bytes, value_at, value_len)?.to_vec(),
                type_number: *bytes.get(29)?,
            });
            bytes = bytes.get(value_at.checked_add(value_len)?..)?;
        }
        Some(all)
    }

    /// Encodes names as an item.
    pub(super) fn encode_all(all: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in all {
            bytes.extend(entry.location.object_id.to_le_bytes());
            bytes.push(entry.location.item_type);
            bytes.extend(entry.location.offset.to_le_bytes());
            bytes.extend(entry.transid.to_le_bytes());
            bytes.extend(len16(&entry.value).to_le_bytes());
            bytes.extend(len16(&entry.name).to_le_bytes());
            bytes.push(entry.type_number);
            bytes.extend(&entry.name);
            bytes.extend(&entry.value);
        }
        bytes
    }
}

/// A name of an inode in a directory (`struct btrfs_inode_ref`, `struct btrfs_inode_extref`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefName {
    pub(super) dir: u64,
    /// The position in the directory: the offset of the entry's key.
    pub(super) index: u64,
    pub(super) name: Vec<u8>,
}

impl RefName {
    /// Parses all names of an item of either kind; `None` if one doesn't fit into it.
    pub(super) fn parse_all(key: Key, mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (dir, head) = match key.item_type {
                item::INODE_EXTREF => (le64(bytes, 0)?, EXTREF_HEAD_BYTES),
                _ => (key.offset, REF_HEAD_BYTES),
            };
            let len = index(le16(bytes, head.checked_sub(2)?)?);
            all.push(Self {
                dir,
                index: le64(bytes, head.checked_sub(REF_HEAD_BYTES)?)?,
                name: part(bytes, head, len)?.to_vec(),
            });
            bytes = bytes.get(head.checked_add(len)?..)?;
        }
        Some(all)
    }

    /// Encodes names as an item of this type.
    pub(super) fn encode_all(item_type: u8, all: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in all {
            if item_type == item::INODE_EXTREF {
                bytes.extend(entry.dir.to_le_bytes());
            }
            bytes.extend(entry.index.to_le_bytes());
            bytes.extend(len16(&entry.name).to_le_bytes());
            bytes.extend(&entry.name);
        }
        bytes
    }
}

/// Returns the length of a name or a value, which came from a field of 16 bits.
fn len16(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// Returns the key of the item with a name in a directory.
pub(super) fn dir_item_key(dir: u64, name: &[u8]) -> Key {
    Key::new(dir, item::DIR_ITEM, name_hash(name))
}

/// Returns the key of the item with an attribute of an inode.
pub(super) fn xattr_key(inode: u64, name: &[u8]) -> Key {
    Key::new(inode, item::XATTR_ITEM, name_hash(name))
}

/// Returns the keys of the items that may have the reference of an inode to its name in `dir`.
pub(super) fn ref_keys(inode: u64, dir: u64, name: &[u8]) -> [Key; 2] {
    // The seed, inverted as the function expects it.
    let seed = !low32(dir);
    [
        Key::new(inode, item::INODE_REF, dir),
        Key::new(
            inode,
            item::INODE_EXTREF,
            u64::from(!crc32c::crc32c_append(seed, name)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let entry = |name: &[u8], value: &[u8]| DirName {
            location: Key::new(257, item::INODE_ITEM, 0),
            transid: 9,
            name: name.to_vec(),
            value: value.to_vec(),
            type_number: 8,
        };
        let all = [entry(b"a", b"value"), entry(b"longer", b"")];
        let bytes = DirName::encode_all(&all);
        assert_eq!(DirName::parse_all(&bytes).unwrap(), all);
        assert_eq!(DirName::parse_all(&bytes[..bytes.len() - 1]), None);
        let all = [b"a", b"b"].map(|name| RefName {
            dir: 256,
            index: 7,
            name: name.to_vec(),
        });
        for item_type in [item::INODE_REF, item::INODE_EXTREF] {
            let key = Key::new(257, item_type, 256);
            let bytes = RefName::encode_all(item_type, &all);
            assert_eq!(RefName::parse_all(key, &bytes).unwrap(), all);
            assert_eq!(RefName::parse_all(key, &bytes[..bytes.len() - 1]), None);
        }
    }
}
