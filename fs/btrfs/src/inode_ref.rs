//! The names of an inode (`struct btrfs_inode_ref` and `struct btrfs_inode_extref`).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::index;
use crate::cursor::Item;
use crate::error::Result;
use crate::key::item;

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeRef {
    index: U64,
    name_len: U16,
}

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeExtref {
    parent_objectid: U64,
    index: U64,
    name_len: U16,
}

/// A name of an inode in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InodeName {
    /// The inode of the directory.
    pub(crate) dir: u64,
    pub(crate) name: Vec<u8>,
}

impl InodeName {
    /// Returns the first name of an item of either kind.
    pub(crate) fn first_of(found: &Item) -> Result<Self> {
        let name = match found.key.item_type {
            item::INODE_REF => plain(found),
            _ => extended(found),
        };
        name.ok_or_else(|| found.invalid("it is too short"))
    }
}

fn plain(found: &Item) -> Option<InodeName> {
    let (raw, rest) = RawInodeRef::ref_from_prefix(found.bytes()).ok()?;
    Some(InodeName {
        dir: found.key.offset,
        name: rest.get(..index(raw.name_len.get()))?.to_vec(),
    })
}

fn extended(found: &Item) -> Option<InodeName> {
    let (raw, rest) = RawInodeExtref::ref_from_prefix(found.bytes()).ok()?;
    Some(InodeName {
        dir: raw.parent_objectid.get(),
        name: rest.get(..index(raw.name_len.get()))?.to_vec(),
    })
}
