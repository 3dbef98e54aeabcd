//! The root of a tree in the root tree (`struct btrfs_root_item`).

use diskfs_vfs::Timestamp;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::cursor::Item;
use crate::error::Result;
use crate::key::KEY_BYTES;
use crate::logical::Logical;
use crate::timestamp::RawTimestamp;
use crate::tree_root::{MAX_LEVELS, TreeRoot};

/// The fields that all versions have.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRootItem {
    inode: [u8; 160],
    generation: U64,
    root_dirid: U64,
    bytenr: U64,
    byte_limit: U64,
    bytes_used: U64,
    last_snapshot: U64,
    flags: U64,
    refs: U32,
    drop_progress: [u8; KEY_BYTES],
    drop_level: u8,
    level: u8,
}

/// The fields that Linux added in version 3.6. They are valid if both generations are equal.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRootItem2 {
    generation_v2: U64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    received_uuid: [u8; 16],
    ctransid: U64,
    otransid: U64,
    stransid: U64,
    rtransid: U64,
    ctime: RawTimestamp,
    otime: RawTimestamp,
}

const _: () = assert!(size_of::<RawRootItem>() == 239 && size_of::<RawRootItem2>() == 112);

/// The flag of a read-only subvolume (`BTRFS_ROOT_SUBVOL_RDONLY`).
const FLAG_READ_ONLY: u64 = 1;

/// The root of a tree, and what is known of it if it is a subvolume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootItem {
    pub(crate) root: TreeRoot,
    pub(crate) bytes_used: u64,
    /// The number of directory entries that lead to the subvolume: 0 if it is deleted.
    pub(crate) refs: u32,
    pub(crate) is_read_only: bool,
    pub(crate) uuid: [u8; 16],
    pub(crate) parent_uuid: [u8; 16],
    pub(crate) received_uuid: [u8; 16],
    pub(crate) created: Timestamp,
}

impl RootItem {
    /// Parses the item of the tree with the item's object ID.
    pub(crate) fn parse(item: &Item, sector_bytes: u32) -> Result<Self> {
        let (raw, rest) = RawRootItem::ref_from_prefix(item.bytes())
            .map_err(|_| item.invalid("it is too short"))?;
        let logical = raw.bytenr.get();
        if raw.level >= MAX_LEVELS || logical.checked_rem(u64::from(sector_bytes)) != Some(0) {
            let reason = format!("tree at {logical:#x} with level {}", raw.level);
            return Err(item.invalid(&reason));
        }
        let more = RawRootItem2::ref_from_prefix(rest)
            .ok()
            .map(|(more, _)| more);
        let more = more.filter(|more| more.generation_v2 == raw.generation);
        Ok(Self {
            root: TreeRoot {
                owner: item.key.object_id,
                logical: Logical(logical),
                level: raw.level,
                generation: raw.generation.get(),
            },
            bytes_used: raw.bytes_used.get(),
            refs: raw.refs.get(),
            is_read_only: raw.flags.get() & FLAG_READ_ONLY != 0,
            uuid: more.map_or([0; 16], |more| more.uuid),
            parent_uuid: more.map_or([0; 16], |more| more.parent_uuid),
            received_uuid: more.map_or([0; 16], |more| more.received_uuid),
            created: more.map_or_else(Timestamp::default, |more| more.otime.get()),
        })
    }
}
