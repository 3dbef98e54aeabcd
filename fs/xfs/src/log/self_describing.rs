//! The places of the LSN, the UUID and the checksum in each kind of logged block of version 5.
//!
//! Source: "XFS Algorithms & Data Structures"; the structures are those of the format, and the
//! types `XFS_BLFT_*` of buffers are those of the log.

use crate::bytes::{array, be16, be32, be64, part};
use crate::checksum;
use diskfs_block::bytes::put;

use super::lsn::Lsn;

/// The offsets of the fields of a self-describing block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    lsn: usize,
    uuid: usize,
    crc: usize,
    /// The types of buffers that contain such blocks: the first and the last one.
    contents: (u16, u16),
}

const fn layout(lsn: usize, uuid: usize, crc: usize, contents: (u16, u16)) -> Layout {
    Layout {
        lsn,
        uuid,
        crc,
        contents,
    }
}

/// The number of the type of a btree's buffer, `XFS_BLFT_BTREE_BUF`.
const BTREE: (u16, u16) = (4, 4);
/// `XFS_BLFT_ATTR_RMT_BUF`.
const REMOTE_ATTRIBUTE: u16 = 17;
/// `XFS_BLFT_SB_BUF`.
pub(super) const SUPERBLOCK: u16 = 18;

const SHORT_BTREE: Layout = layout(24, 32, 52, BTREE);
const LONG_BTREE: Layout = layout(32, 40, 64, BTREE);
const AGF: Layout = layout(208, 64, 216, (5, 5));
const AGFL: Layout = layout(24, 8, 32, (6, 6));
const AGI: Layout = layout(320, 296, 312, (7, 7));
const SYMLINK: Layout = layout(48, 16, 12, (9, 9));
const DIRECTORY: Layout = layout(16, 24, 4, (10, 12));
const DIRECTORY_OR_ATTRIBUTE: Layout = layout(24, 32, 12, (13, 16));
const SB: Layout = layout(240, 32, 224, (SUPERBLOCK, SUPERBLOCK));
/// The offset of `sb_meta_uuid`, which replaces the UUID if the filesystem has both.
const SB_META_UUID: usize = 248;

/// The offset of the magic of blocks of directories' and attributes' trees, and the offset of the
/// checksum of a block of a remote attribute.
const TREE_MAGIC_OFFSET: usize = 8;
const REMOTE_CRC_OFFSET: usize = 12;

impl Layout {
    /// Returns the layout of a block, by its magic; `None` if it is not self-describing, or has no
    /// LSN that orders it.
    pub(super) fn of(block: &[u8], has_meta_uuid: bool) -> Option<Self> {
        let by_magic = match &be32(block, 0)?.to_be_bytes() {
            b"AB3B" | b"AB3C" | b"RMB3" | b"R3FC" | b"FIB3" | b"IAB3" => SHORT_BTREE,
            b"BMA3" => LONG_BTREE,
            b"XAGF" => AGF,
            b"XAFL" => AGFL,
            b"XAGI" => AGI,
            b"XSLM" => SYMLINK,
            b"XDB3" | b"XDD3" | b"XDF3" => DIRECTORY,
            b"XFSB" if has_meta_uuid => Self {
                uuid: SB_META_UUID,
                ..SB
            },
            b"XFSB" => SB,
            _ => return Self::of_tree(block),
        };
        Some(by_magic)
    }

    fn of_tree(block: &[u8]) -> Option<Self> {
        let magic = be16(block, TREE_MAGIC_OFFSET)?;
        let is_tree = matches!(magic, 0x3df1 | 0x3dff | 0x3bee | 0x3ebe);
        is_tree.then_some(DIRECTORY_OR_ATTRIBUTE)
    }

    /// Returns the LSN of the last change that is in the block; `None` if it is unknown, or belongs
    /// to another filesystem.
    pub(super) fn lsn_in(self, block: &[u8], meta_uuid: &[u8; 16]) -> Option<Lsn> {
        if part(block, self.uuid, meta_uuid.len())? != meta_uuid {
            return None;
        }
        be64(block, self.lsn).map(Lsn).filter(|lsn| lsn.is_known())
    }

    fn is_in(self, contents: u16) -> bool {
        let (first, last) = self.contents;
        (first..=last).contains(&contents)
    }
}

/// Sets the LSN and the checksum of a block after its replay, as the kernel does when it writes the
/// block. A block whose magic does not fit the type of its buffer stays as it is.
pub(super) fn stamp(block: &mut [u8], contents: u16, lsn: Lsn, block_len: usize, meta: bool) {
    if contents == REMOTE_ATTRIBUTE {
        block
            .chunks_mut(block_len.max(1))
            .for_each(stamp_remote_attribute);
        return;
    }
    let Some(layout) = Layout::of(block, meta).filter(|layout| layout.is_in(contents)) else {
        return;
    };
    put(block, layout.lsn, &lsn.0.to_be_bytes());
    put_checksum(block, layout.crc);
}

/// Sets the checksum of a block of a remote attribute. Its LSN is never set.
fn stamp_remote_attribute(block: &mut [u8]) {
    if array(block, 0) == Some(*b"XARM") {
        put_checksum(block, REMOTE_CRC_OFFSET);
    }
}

/// Sets the checksum at `offset` of a structure.
pub(super) fn put_checksum(bytes: &mut [u8], offset: usize) {
    let crc = checksum::checksum(bytes, offset);
    put(bytes, offset, &crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gets_the_lsn_of_its_transaction() {
        let mut block = vec![0; 512];
        block[..4].copy_from_slice(b"XDB3");
        block[24..40].copy_from_slice(&[7; 16]);
        stamp(&mut block, 10, Lsn(9), 512, false);
        assert_eq!(Layout::of(&block, false), Some(DIRECTORY));
        assert_eq!(DIRECTORY.lsn_in(&block, &[7; 16]), Some(Lsn(9)));
        assert_eq!(DIRECTORY.lsn_in(&block, &[8; 16]), None);
        assert!(checksum::verify(&block, 4, "test", 0).is_ok());
    }

    #[test]
    fn a_wrong_magic_prevents_the_stamp() {
        let mut block = vec![0; 512];
        block[..4].copy_from_slice(b"XDB3");
        let before = block.clone();
        stamp(&mut block, 4, Lsn(9), 512, false);
        assert_eq!(block, before);
    }

    #[test]
    fn trees_have_their_magic_elsewhere() {
        let mut block = vec![0; 512];
        block[8..10].copy_from_slice(&[0x3b, 0xee]);
        assert_eq!(Layout::of(&block, false), Some(DIRECTORY_OR_ATTRIBUTE));
        block[8] = 0;
        assert_eq!(Layout::of(&block, false), None);
    }
}
