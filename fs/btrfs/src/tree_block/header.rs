//! The header of a tree block (`struct btrfs_header`).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{BlockFormat, invalid, leaf, node};
use crate::bytes::index;
use crate::error::Result;
use crate::logical::Logical;
use crate::tree_root::MAX_LEVELS;

/// The header as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    csum: [u8; 32],
    fsid: [u8; 16],
    bytenr: U64,
    flags: U64,
    chunk_tree_uuid: [u8; 16],
    generation: U64,
    owner: U64,
    nritems: U32,
    level: u8,
}

const _: () = assert!(size_of::<RawHeader>() == 101);

/// The fields of the header that are used after it was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) logical: Logical,
    pub(crate) generation: u64,
    pub(crate) owner: u64,
    pub(crate) level: u8,
    /// The number of items or pointers, which fit into the block.
    pub(super) items: usize,
}

impl Header {
    pub(super) fn parse(
        bytes: &[u8],
        logical: Logical,
        place: u64,
        format: &BlockFormat,
    ) -> Result<Self> {
        let fail = |reason: &str| Err(invalid(logical, place, reason));
        let Ok((raw, rest)) = RawHeader::ref_from_prefix(bytes) else {
            return fail("it is too short");
        };
        if raw.bytenr.get() != logical.0 {
            return fail("it belongs to another place");
        }
        if !format.fsids.contains(&raw.fsid) {
            return fail("it belongs to another filesystem");
        }
        if raw.level >= MAX_LEVELS {
            return fail(&format!("level {}", raw.level));
        }
        let items = index(raw.nritems.get());
        let entry_bytes = if raw.level == 0 {
            leaf::ITEM_BYTES
        } else {
            node::POINTER_BYTES
        };
        if items.saturating_mul(entry_bytes) > rest.len() {
            return fail(&format!("{items} items do not fit into it"));
        }
        Ok(Self {
            logical,
            generation: raw.generation.get(),
            owner: raw.owner.get(),
            level: raw.level,
            items,
        })
    }
}
