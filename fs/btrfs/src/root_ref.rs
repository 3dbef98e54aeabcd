//! The place of a subvolume in its parent (`struct btrfs_root_ref`), for both of its items: the one
//! of the parent and the one that leads back.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::index;
use crate::cursor::Item;
use crate::error::Result;

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRootRef {
    dirid: U64,
    sequence: U64,
    name_len: U16,
}

/// The directory entry that leads to a subvolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootRef {
    /// The inode of the directory, in the parent subvolume.
    pub(crate) dir: u64,
    pub(crate) name: Vec<u8>,
}

impl RootRef {
    pub(crate) fn parse(item: &Item) -> Result<Self> {
        let parsed = RawRootRef::ref_from_prefix(item.bytes()).ok();
        let parsed = parsed.and_then(|(raw, rest)| {
            Some(Self {
                dir: raw.dirid.get(),
                name: rest.get(..index(raw.name_len.get()))?.to_vec(),
            })
        });
        parsed.ok_or_else(|| item.invalid("it is too short"))
    }
}
