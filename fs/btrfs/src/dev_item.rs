//! The description of a device (`struct btrfs_dev_item`), in its superblock and in the chunk tree.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The description of a device as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDevItem {
    devid: U64,
    total_bytes: U64,
    bytes_used: U64,
    io_align: U32,
    io_width: U32,
    sector_size: U32,
    r#type: U64,
    generation: U64,
    start_offset: U64,
    dev_group: U32,
    seek_speed: u8,
    bandwidth: u8,
    uuid: [u8; 16],
    fsid: [u8; 16],
}

const _: () = assert!(size_of::<RawDevItem>() == 98);

/// The description of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DevItem {
    pub(crate) devid: u64,
    /// The part of the device that the filesystem uses.
    pub(crate) total_bytes: u64,
    pub(crate) bytes_used: u64,
    pub(crate) uuid: [u8; 16],
    /// The UUID of the filesystem that the device was made for: another one for a seed device.
    pub(crate) fsid: [u8; 16],
}

impl DevItem {
    /// Parses an item of the chunk tree; `None` if it is too short.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawDevItem::ref_from_prefix(bytes).ok()?;
        Some(Self::from(raw))
    }
}

impl From<&RawDevItem> for DevItem {
    fn from(raw: &RawDevItem) -> Self {
        Self {
            devid: raw.devid.get(),
            total_bytes: raw.total_bytes.get(),
            bytes_used: raw.bytes_used.get(),
            uuid: raw.uuid,
            fsid: raw.fsid,
        }
    }
}
