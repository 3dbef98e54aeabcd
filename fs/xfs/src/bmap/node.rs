//! Blocks of the tree of extents of a fork, and the root in the inode.
//!
//! Source: "XFS Algorithms & Data Structures", section "B+tree Extent List".

use std::sync::Arc;

use crate::bytes::{be16, be64, len_u64, part};
use crate::checksum;
use crate::error::{Result, corrupt};
use crate::extent::{Extent, RECORD_BYTES};
use crate::inode::{ForkKind, Inode};
use crate::metadata_cache::{BlockKind, Key};
use crate::superblock::{FsBlock, basic_block};
use crate::volume::Volume;

/// `XFS_BMAP_MAGIC` and `XFS_BMAP_CRC_MAGIC`.
const MAGIC: [u8; 4] = *b"BMAP";
const MAGIC_V5: [u8; 4] = *b"BMA3";
/// The length of a block's header in version 4 and 5.
const HEADER_BYTES: usize = 24;
const HEADER_V5_BYTES: usize = 72;
const CRC_OFFSET: usize = 64;
const BLOCK_OFFSET: usize = 24;
const UUID_OFFSET: usize = 40;
const OWNER_OFFSET: usize = 56;
/// The length of the root's header in the inode, `xfs_bmdr_block`.
const ROOT_HEADER_BYTES: usize = 4;
/// The length of a key, and of a pointer.
const KEY_BYTES: usize = 8;
/// The largest level of a tree. The tree of a file of 2^48 extents in blocks of 512 bytes has fewer
/// levels.
const LEVEL_MAX: u16 = 16;

/// A node: a block of a tree, or the root in an inode.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    bytes: Arc<[u8]>,
    header_bytes: usize,
    /// The level above the leaves, which have level 0.
    pub(crate) level: u16,
    /// The number of records.
    pub(crate) count: usize,
    /// The number of records that there is space for.
    capacity: usize,
    /// The byte of the device at which the node starts.
    pub(crate) at: u64,
}

impl Node {
    /// Parses the root of a tree in an inode.
    pub(crate) fn root(inode: &Inode, bytes: &[u8]) -> Result<Self> {
        let (level, count) = (be16(bytes, 0).unwrap_or(0), be16(bytes, 2).unwrap_or(0));
        let space = bytes.len().saturating_sub(ROOT_HEADER_BYTES);
        let node = Self {
            bytes: bytes.into(),
            header_bytes: ROOT_HEADER_BYTES,
            level,
            count: count.into(),
            capacity: space.checked_div(KEY_BYTES.saturating_mul(2)).unwrap_or(0),
            at: inode.at,
        };
        let is_valid = (1..=LEVEL_MAX).contains(&level);
        if is_valid && (1..=node.capacity).contains(&node.count) {
            return Ok(node);
        }
        let what = format!("invalid root of a tree of extents: level {level}, {count} records");
        Err(inode.corrupt(what))
    }

    /// Reads the block of a tree that its parent refers to as a node of this level.
    pub(crate) fn read(
        volume: &Volume,
        inode: &Inode,
        kind: ForkKind,
        block: FsBlock,
        level: u16,
    ) -> Result<Self> {
        let superblock = &volume.superblock;
        let at = superblock.byte_of(block).ok_or_else(|| {
            inode.corrupt(format!(
                "its tree of extents refers to block {block}, which is outside"
            ))
        })?;
        let key = Key {
            kind: match kind {
                ForkKind::Data => BlockKind::DataForkNode,
                ForkKind::Attributes => BlockKind::AttributeForkNode,
            },
            owner: inode.number,
            place: block.0,
        };
        let bytes = volume.metadata.get_or_make(&key, || -> Result<Arc<[u8]>> {
            let bytes = volume.read_bytes(at, superblock.block_len())?;
            check(volume, inode, &bytes, at)?;
            Ok(bytes)
        })?;
        let header_bytes = header_bytes(volume);
        let space = bytes.len().saturating_sub(header_bytes);
        let node = Self {
            header_bytes,
            level: be16(&bytes, 4).unwrap_or(u16::MAX),
            count: be16(&bytes, 6).unwrap_or(0).into(),
            capacity: space.checked_div(RECORD_BYTES).unwrap_or(0),
            bytes,
            at,
        };
        if node.level == level && (1..=node.capacity).contains(&node.count) {
            return Ok(node);
        }
        let (actual, count) = (node.level, node.count);
        let reason = format!(
            "invalid block of a tree of extents: level {actual} with {count} records, expected \
             level {level}"
        );
        Err(corrupt(reason, at))
    }

    /// Returns the first file block of the `nth` child.
    pub(crate) fn key(&self, nth: usize) -> Option<u64> {
        let within = nth.checked_mul(KEY_BYTES)?;
        be64(&self.bytes, self.header_bytes.checked_add(within)?)
    }

    /// Returns the block of the `nth` child.
    pub(crate) fn child(&self, nth: usize) -> Option<FsBlock> {
        let slot = self.capacity.checked_add(nth)?;
        let within = slot.checked_mul(KEY_BYTES)?;
        (nth < self.count)
            .then(|| be64(&self.bytes, self.header_bytes.saturating_add(within)))
            .flatten()
            .map(FsBlock)
    }

    /// Returns the index of the child that contains `file_block`, or the first one.
    pub(crate) fn search(&self, file_block: u64) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle).is_some_and(|key| key <= file_block) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1)
    }

    /// Returns the `nth` extent of a leaf, which must follow file block `after`.
    pub(crate) fn extent(&self, volume: &Volume, nth: usize, after: u64) -> Option<Result<Extent>> {
        let within = nth.checked_mul(RECORD_BYTES)?;
        let offset = self.header_bytes.checked_add(within)?;
        let record = part(&self.bytes, offset, RECORD_BYTES).filter(|_| nth < self.count)?;
        let at = self.at.saturating_add(len_u64(offset));
        Some(Extent::parse(&volume.superblock, record, after, at))
    }
}

fn header_bytes(volume: &Volume) -> usize {
    if volume.superblock.has_checksums() {
        HEADER_V5_BYTES
    } else {
        HEADER_BYTES
    }
}

/// Checks what a block says about itself.
fn check(volume: &Volume, inode: &Inode, bytes: &[u8], at: u64) -> Result<()> {
    const NAME: &str = "block of a tree of extents";
    let superblock = &volume.superblock;
    let invalid = |what: &str| Err(corrupt(format!("invalid {NAME}: {what}"), at));
    if !superblock.has_checksums() {
        return if bytes.starts_with(&MAGIC) {
            Ok(())
        } else {
            invalid("wrong magic")
        };
    }
    if !bytes.starts_with(&MAGIC_V5) {
        return invalid("wrong magic");
    }
    checksum::verify(bytes, CRC_OFFSET, NAME, at)?;
    checksum::verify_uuid(bytes, UUID_OFFSET, &superblock.meta_uuid, NAME, at)?;
    if be64(bytes, BLOCK_OFFSET) != Some(basic_block(at)) {
        return invalid("it belongs to another place");
    }
    if be64(bytes, OWNER_OFFSET) != Some(inode.number) {
        return invalid("it belongs to another inode");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tree_of_all_extents_has_fewer_levels() {
        // 27 children per block of 512 bytes with checksums.
        let mut extents = 1_u128;
        for _ in 0..super::LEVEL_MAX {
            extents *= 27;
        }
        assert!(extents > 1 << 48);
    }
}
