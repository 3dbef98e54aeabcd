//! The index of a directory: records of hash and position, sorted by hash, in leaves below a tree
//! of nodes. Attributes have the same nodes.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Leaf Directories" and "Node Directories".

use crate::bytes::{be16, be32, be64};
use crate::checksum;
use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::superblock::{Superblock, basic_block};

/// The length of a record.
const RECORD_BYTES: usize = 8;
/// The length of the header of a block, `xfs_da3_blkinfo` with counts, in version 4 and 5.
const HEADER_BYTES: usize = 16;
const HEADER_V5_BYTES: usize = 64;
const CRC_OFFSET: usize = 12;
const BLOCK_OFFSET: usize = 16;
const UUID_OFFSET: usize = 32;
const OWNER_OFFSET: usize = 48;
/// The largest level of a node, `XFS_DA_NODE_MAXDEPTH`.
const LEVEL_MAX: u16 = 5;

/// The kind of a block of the index, by its magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexBlock {
    /// The only leaf of a leaf directory.
    SingleLeaf,
    /// A leaf below nodes.
    Leaf,
    /// A node.
    Node,
    /// A leaf of attributes.
    AttributeLeaf,
}

/// Returns the kind of a block.
pub(crate) fn kind(superblock: &Superblock, bytes: &[u8]) -> Option<IndexBlock> {
    match (be16(bytes, 8)?, superblock.has_checksums()) {
        (0xd2f1, false) | (0x3df1, true) => Some(IndexBlock::SingleLeaf),
        (0xd2ff, false) | (0x3dff, true) => Some(IndexBlock::Leaf),
        (0xfebe, false) | (0x3ebe, true) => Some(IndexBlock::Node),
        (0xfbee, false) | (0x3bee, true) => Some(IndexBlock::AttributeLeaf),
        _ => None,
    }
}

/// Checks what a block says about itself, and returns its kind. Its contents are still to be
/// checked.
pub(crate) fn check_identity(
    superblock: &Superblock,
    inode: &Inode,
    bytes: &[u8],
    name: &str,
    at: u64,
) -> Result<IndexBlock> {
    let invalid = |what: &str| corrupt(format!("invalid {name}: {what}"), at);
    let kind = kind(superblock, bytes).ok_or_else(|| invalid("wrong magic"))?;
    if superblock.has_checksums() {
        checksum::verify(bytes, CRC_OFFSET, name, at)?;
        checksum::verify_uuid(bytes, UUID_OFFSET, &superblock.meta_uuid, name, at)?;
        if be64(bytes, BLOCK_OFFSET) != Some(basic_block(at)) {
            return Err(invalid("it belongs to another place"));
        }
        if be64(bytes, OWNER_OFFSET) != Some(inode.number) {
            return Err(invalid("it belongs to another inode"));
        }
    }
    Ok(kind)
}

/// Checks a block of the index of a directory.
pub(super) fn check(superblock: &Superblock, inode: &Inode, bytes: &[u8], at: u64) -> Result<()> {
    const NAME: &str = "block of a directory's index";
    let invalid = |what: &str| corrupt(format!("invalid {NAME}: {what}"), at);
    let kind = check_identity(superblock, inode, bytes, NAME, at)?;
    if kind == IndexBlock::AttributeLeaf {
        return Err(invalid("it has attributes"));
    }
    check_records(superblock, bytes, kind).ok_or_else(|| invalid("its records are not sorted"))
}

/// Checks that the records of a node or a leaf fit, and are sorted. A node has at least one.
pub(crate) fn check_records(superblock: &Superblock, bytes: &[u8], kind: IndexBlock) -> Option<()> {
    let view = IndexView::of(superblock, bytes);
    if kind == IndexBlock::Node && (view.count == 0 || !(1..=LEVEL_MAX).contains(&view.level())) {
        return None;
    }
    check_order(bytes, view.start, view.count)
}

/// Checks that `count` records from `start` on fit, and that their hashes do not decrease.
pub(super) fn check_order(bytes: &[u8], start: usize, count: usize) -> Option<()> {
    let end = start.checked_add(count.checked_mul(RECORD_BYTES)?)?;
    let records = bytes.get(start..end)?.chunks_exact(RECORD_BYTES);
    records
        .filter_map(|record| be32(record, 0))
        .is_sorted()
        .then_some(())
}

/// The records of a checked block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexView<'a> {
    bytes: &'a [u8],
    start: usize,
    pub(crate) count: usize,
}

impl<'a> IndexView<'a> {
    /// Returns the records of a node or a leaf.
    pub(crate) fn of(superblock: &Superblock, bytes: &'a [u8]) -> Self {
        let (start, count_offset) = if superblock.has_checksums() {
            (HEADER_V5_BYTES, 56)
        } else {
            (HEADER_BYTES, 12)
        };
        Self {
            bytes,
            start,
            count: be16(bytes, count_offset).unwrap_or(0).into(),
        }
    }

    /// Returns the records at the end of a block in block form.
    pub(super) fn of_block_form(bytes: &'a [u8]) -> Self {
        let (start, count) = super::data::index_of(bytes).unwrap_or((0, 0));
        Self {
            bytes,
            start,
            count,
        }
    }

    /// Returns the level of a node.
    pub(crate) fn level(&self) -> u16 {
        // After the count.
        let offset = if self.start == HEADER_BYTES { 14 } else { 58 };
        be16(self.bytes, offset).unwrap_or(0)
    }

    /// Returns the block that follows a leaf; 0 if it is the last one.
    pub(crate) fn forward(&self) -> u32 {
        be32(self.bytes, 0).unwrap_or(0)
    }

    /// Returns hash and value of the `nth` record.
    pub(crate) fn record(&self, nth: usize) -> Option<(u32, u32)> {
        if nth >= self.count {
            return None;
        }
        let at = self.start.checked_add(nth.checked_mul(RECORD_BYTES)?)?;
        Some((be32(self.bytes, at)?, be32(self.bytes, at.checked_add(4)?)?))
    }

    /// Returns the index of the first record whose hash is at least `hash`.
    pub(crate) fn search(&self, hash: u32) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.record(middle).is_some_and(|(other, _)| other < hash) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the values of the records with this hash.
    pub(crate) fn values(self, hash: u32) -> impl Iterator<Item = u32> + 'a {
        let first = self.search(hash);
        (first..self.count)
            .filter_map(move |nth| self.record(nth))
            .take_while(move |(other, _)| *other == hash)
            .map(|(_, value)| value)
    }

    /// Returns true if records with this hash may continue in the next leaf.
    pub(crate) fn may_continue(&self, hash: u32) -> bool {
        let last = self.count.checked_sub(1).and_then(|last| self.record(last));
        self.forward() != 0 && last.is_none_or(|(other, _)| other <= hash)
    }
}
