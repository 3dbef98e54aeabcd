//! The change of a file's mapping that a BUI announces, `struct xfs_map_extent`.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::part;
use crate::extent::Extent;
use crate::superblock::FsBlock;

/// The bytes of `struct xfs_bui_log_format` before its extents.
const FORMAT_BYTES: usize = 16;

/// The bytes of `struct xfs_map_extent`.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawMapExtent {
    me_owner: U64,
    me_startblock: U64,
    me_startoff: U64,
    me_len: U32,
    me_flags: U32,
}

const _: () = assert!(size_of::<RawMapExtent>() == 32);

/// The kinds of changes, in the low bits of `me_flags`: `XFS_BMAP_MAP` and `XFS_BMAP_UNMAP`.
const MAP: u32 = 1;
const UNMAP: u32 = 2;
const KIND_MASK: u32 = 0xff;
/// The flags of `me_flags`: `XFS_BMAP_EXTENT_UNWRITTEN`.
const UNWRITTEN: u32 = 1 << 30;
/// The largest length of an extent, `XFS_MAX_BMBT_EXTLEN`.
const LEN_BLOCKS_MAX: u32 = (1 << 21) - 1;

/// A change of the mapping of a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappingChange {
    pub(super) inode: u64,
    /// The blocks to map or to unmap. Only a mapping uses their place on the device.
    pub(super) extent: Extent,
    pub(super) kind: ChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Map,
    Unmap,
}

impl MappingChange {
    /// Reads the format structure of a BUI; `None` if its change is not one of the blocks of a
    /// file's data.
    pub(super) fn parse(format: &[u8]) -> Option<Self> {
        let bytes = format.get(FORMAT_BYTES..)?;
        let raw = RawMapExtent::read_from_bytes(part(bytes, 0, bytes.len())?).ok()?;
        let flags = raw.me_flags.get();
        // Changes of attribute forks and of the real-time device have other flags.
        if flags & !(UNWRITTEN | KIND_MASK) != 0 {
            return None;
        }
        let kind = match flags & KIND_MASK {
            MAP => ChangeKind::Map,
            UNMAP => ChangeKind::Unmap,
            _ => return None,
        };
        let len_blocks = raw.me_len.get();
        (1..=LEN_BLOCKS_MAX).contains(&len_blocks).then_some(Self {
            inode: raw.me_owner.get(),
            extent: Extent {
                file_block: raw.me_startoff.get(),
                first: FsBlock(raw.me_startblock.get()),
                len_blocks,
                written: flags & UNWRITTEN == 0,
            },
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(flags: u32) -> Vec<u8> {
        let mut bytes = vec![0; FORMAT_BYTES];
        for number in [70_u64, 0x668, 1576] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    }

    #[test]
    fn only_changes_of_data_are_known() {
        let change = MappingChange::parse(&format(0x4000_0001)).unwrap();
        assert_eq!((change.inode, change.kind), (70, ChangeKind::Map));
        assert_eq!(
            (change.extent.file_block, change.extent.end()),
            (1576, 1580)
        );
        assert!(!change.extent.written);
        // An attribute fork, the real-time device, an unknown kind, and a missing end.
        for flags in [0x8000_0001, 0x2000_0002, 3] {
            assert_eq!(MappingChange::parse(&format(flags)), None);
        }
        assert_eq!(MappingChange::parse(&format(1)[..47]), None);
    }
}
