//! The third pass: extents of files.

use diskfs_block::bytes::put;

use super::Replay;
use crate::bytes::{array, le64};
use crate::error::Result;
use crate::key::{Key, item};

const TYPE_INLINE: u8 = 0;
const TYPE_REGULAR: u8 = 1;
const TYPE_PREALLOCATED: u8 = 2;

const RAM_BYTES_AT: usize = 8;
const TYPE_AT: usize = 20;
const DISK_BYTENR_AT: usize = 21;
const OFFSET_AT: usize = 37;
const NUM_BYTES_AT: usize = 45;

/// The length of an item that is not inline.
const EXTENT_BYTES: usize = 53;

/// The item of an extent, whose type is valid (`struct btrfs_file_extent_item`).
#[derive(Debug, Clone)]
pub(super) enum Extent {
    Inline { ram_bytes: u64 },
    OnDevices(PlacedExtent),
}

/// The item of a regular or preallocated extent, or of a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedExtent {
    bytes: [u8; EXTENT_BYTES],
}

impl Extent {
    /// Parses an item; `None` if it is too short or has an unknown type.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        match *bytes.get(TYPE_AT)? {
            TYPE_INLINE => Some(Self::Inline {
                ram_bytes: le64(bytes, RAM_BYTES_AT)?,
            }),
            TYPE_REGULAR | TYPE_PREALLOCATED => Some(Self::OnDevices(PlacedExtent {
                bytes: array(bytes, 0)?,
            })),
            _ => None,
        }
    }

    /// Returns the number of bytes of the file that the extent has.
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Self::Inline { ram_bytes } => *ram_bytes,
            Self::OnDevices(extent) => extent.len_bytes(),
        }
    }

    /// Returns the number of bytes that count as allocated.
    pub(super) fn allocated_bytes(&self) -> u64 {
        match self {
            Self::OnDevices(extent) if extent.is_hole() => 0,
            extent => extent.len_bytes(),
        }
    }
}

impl PlacedExtent {
    pub(super) fn is_hole(&self) -> bool {
        self.number(DISK_BYTENR_AT) == 0
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.number(NUM_BYTES_AT)
    }

    /// Returns the item of the extent without its first bytes.
    pub(super) fn without_first(&self, bytes: u64) -> Self {
        let mut rest = self.with_len(self.len_bytes().saturating_sub(bytes));
        if !self.is_hole() {
            let offset = self.number(OFFSET_AT).saturating_add(bytes);
            put(&mut rest.bytes, OFFSET_AT, &offset.to_le_bytes());
        }
        rest
    }

    /// Returns the item of the first bytes of the extent.
    pub(super) fn with_len(&self, len_bytes: u64) -> Self {
        let mut part = self.clone();
        put(&mut part.bytes, NUM_BYTES_AT, &len_bytes.to_le_bytes());
        part
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    fn number(&self, at: usize) -> u64 {
        le64(&self.bytes, at).unwrap_or(0)
    }
}

impl Replay<'_> {
    /// Replays an extent: it replaces what the file has in its place.
    pub(super) fn replay_extent(&mut self, key: Key, bytes: &[u8]) -> Result<()> {
        let extent = Extent::parse(bytes).ok_or_else(|| self.log.invalid(key))?;
        let number = key.object_id;
        self.subvolume.existing_inode(number)?;
        if let Extent::OnDevices(logged) = &extent
            && self.has_extent(key, logged)?
        {
            return Ok(());
        }
        let end = key.offset.checked_add(extent.len_bytes());
        let end = match extent {
            Extent::Inline { .. } => {
                end.and_then(|end| end.checked_next_multiple_of(self.subvolume.sector_bytes()))
            }
            Extent::OnDevices(_) => end,
        };
        let end = end.ok_or_else(|| self.log.invalid(key))?;
        let dropped = self.drop_extents(number, key.offset..end)?;
        let is_implicit = matches!(&extent, Extent::OnDevices(extent) if extent.is_hole());
        if !is_implicit || self.has_holes {
            self.subvolume.set(key, bytes.to_vec())?;
        }
        let mut inode = self.subvolume.existing_inode(number)?;
        let nbytes = inode.nbytes().saturating_add(extent.allocated_bytes());
        inode.set_nbytes(nbytes.saturating_sub(dropped));
        self.subvolume.set_inode(number, inode)
    }

    /// Returns true if the file has the same extent already.
    fn has_extent(&self, key: Key, logged: &PlacedExtent) -> Result<bool> {
        debug_assert_eq!(key.item_type, item::EXTENT_DATA);
        let Some(bytes) = self.subvolume.get(key)? else {
            return Ok(false);
        };
        let existing = Extent::parse(&bytes).ok_or_else(|| self.subvolume.invalid(key))?;
        Ok(matches!(existing, Extent::OnDevices(existing) if existing == *logged))
    }
}
