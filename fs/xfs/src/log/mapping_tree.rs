//! Changing a leaf of the tree of a file's extents.

use crate::bytes::{array, be16, be64, part};
use crate::error::Result;
use crate::extent::{Extent, RECORD_BYTES, parse_list};
use crate::superblock::FsBlock;
use diskfs_block::bytes::put;

use super::extent_list::pack;
use super::finish_mapping::beyond_one_list;
use super::fork_place::ForkPlace;
use super::mapping_change::MappingChange;
use super::replay::Replay;
use super::self_describing::put_checksum;

/// The offsets of fields of a block of a tree.
pub(super) const LEVEL: usize = 4;
pub(super) const COUNT: usize = 6;
const RIGHT_SIBLING: usize = 16;
const CRC: usize = 64;
/// The size of the header of a block.
pub(super) const BLOCK_HEADER: usize = 72;
/// The size of a key and of a pointer together.
pub(super) const ENTRY_BYTES: usize = 16;
/// The largest number of levels, `XFS_BTREE_MAXLEVELS`.
pub(super) const LEVELS_MAX: u16 = 9;

/// A block of the tree, or its root in the inode, on the way to a leaf.
#[derive(Debug)]
struct Step {
    /// The byte of the device of the block; `None` for the root.
    byte: Option<u64>,
    /// The place of the key that led to the next level.
    key: usize,
    /// True if it is the first key.
    is_first: bool,
}

impl Replay<'_> {
    /// Changes the leaf of an inode's tree to which the change belongs. Returns its extents before
    /// and after.
    pub(super) fn change_tree(
        &mut self,
        inode: &mut [u8],
        fork: ForkPlace,
        change: &MappingChange,
    ) -> Result<(Vec<Extent>, Vec<Extent>)> {
        let (path, leaf) = self.find_leaf(inode, fork, change.extent.file_block)?;
        let mut bytes = self.read(leaf, self.superblock.block_len())?;
        let count = usize::from(be16(&bytes, COUNT).unwrap_or(0));
        let records = part(&bytes, BLOCK_HEADER, count.saturating_mul(RECORD_BYTES));
        let records = records.ok_or_else(|| self.invalid("a tree has an invalid block"))?;
        let (before, after) = self.changed_list(records, change)?;
        let packed = pack(&after);
        let fits = BLOCK_HEADER.saturating_add(packed.len()) <= bytes.len();
        if !fits || after.is_empty() || self.reaches_next_leaf(&bytes, change)? {
            return Err(beyond_one_list());
        }
        let count = u16::try_from(after.len()).unwrap_or(u16::MAX);
        put(&mut bytes, COUNT, &count.to_be_bytes());
        put(&mut bytes, BLOCK_HEADER, &packed);
        write_checked(self, leaf, &mut bytes)?;
        let first = |list: &[Extent]| list.first().map(|extent| extent.file_block);
        if let Some(first_after) = first(&after)
            && first(&before) != Some(first_after)
        {
            self.set_keys(inode, &path, first_after)?;
        }
        Ok((before, after))
    }

    /// Returns the way from the root to the leaf for a block of the file, and the leaf's byte.
    fn find_leaf(
        &mut self,
        inode: &[u8],
        fork: ForkPlace,
        file_block: u64,
    ) -> Result<(Vec<Step>, u64)> {
        let root = part(inode, fork.start, fork.len).unwrap_or_default();
        let mut level = be16(root, 0).unwrap_or(0);
        if level == 0 || level > LEVELS_MAX {
            return Err(self.invalid("a tree has an invalid root"));
        }
        let (mut step, mut next) = self.step(root, 2, 4, None, file_block)?;
        step.key = step.key.saturating_add(fork.start);
        let mut path = vec![step];
        loop {
            level = level.saturating_sub(1);
            let byte = self.superblock.byte_of(FsBlock(next));
            let byte = byte.ok_or_else(|| self.invalid("a tree has an invalid pointer"))?;
            let block = self.read(byte, self.superblock.block_len())?;
            if !block.starts_with(b"BMA3") || be16(&block, LEVEL) != Some(level) {
                return Err(self.invalid("a tree has an invalid block"));
            }
            if level == 0 {
                return Ok((path, byte));
            }
            let (step, child) = self.step(&block, COUNT, BLOCK_HEADER, Some(byte), file_block)?;
            next = child;
            path.push(step);
        }
    }

    /// Chooses the last key of a node that is not above `file_block`, and returns its child.
    fn step(
        &self,
        node: &[u8],
        count: usize,
        header: usize,
        byte: Option<u64>,
        file_block: u64,
    ) -> Result<(Step, u64)> {
        let count = usize::from(be16(node, count).unwrap_or(0));
        let capacity = node.len().saturating_sub(header).wrapping_div(ENTRY_BYTES);
        let key_at = |nth: usize| header.saturating_add(nth.saturating_mul(8));
        let is_after = |nth: &usize| be64(node, key_at(*nth)).is_none_or(|key| key > file_block);
        let nth = (0..count.min(capacity))
            .rfind(|nth| !is_after(nth))
            .unwrap_or(0);
        let child = be64(node, key_at(capacity.saturating_add(nth)));
        match child {
            Some(child) if count > 0 && count <= capacity => {
                let step = Step {
                    byte,
                    key: key_at(nth),
                    is_first: nth == 0,
                };
                Ok((step, child))
            }
            _ => Err(self.invalid("a tree has an invalid node")),
        }
    }

    /// Returns true if a change goes on in the leaf after this one.
    fn reaches_next_leaf(&mut self, leaf: &[u8], change: &MappingChange) -> Result<bool> {
        let next = be64(leaf, RIGHT_SIBLING).filter(|next| *next != u64::MAX);
        let Some(next) = next else {
            return Ok(false);
        };
        let byte = self.superblock.byte_of(FsBlock(next));
        let byte = byte.ok_or_else(|| self.invalid("a tree has an invalid pointer"))?;
        let block = self.read(byte, self.superblock.block_len())?;
        let record: Option<[u8; RECORD_BYTES]> = array(&block, BLOCK_HEADER);
        let first = record.map(|record| parse_list(&self.superblock, &record, byte));
        let first = first.transpose()?.unwrap_or_default();
        Ok(first
            .first()
            .is_none_or(|first| first.file_block < change.extent.end()))
    }

    /// Sets the key of a leaf in its parent, and further up as long as it is the first one.
    fn set_keys(&mut self, inode: &mut [u8], path: &[Step], key: u64) -> Result<()> {
        for step in path.iter().rev() {
            match step.byte {
                None => put(inode, step.key, &key.to_be_bytes()),
                Some(byte) => {
                    let mut block = self.read(byte, self.superblock.block_len())?;
                    put(&mut block, step.key, &key.to_be_bytes());
                    write_checked(self, byte, &mut block)?;
                }
            }
            if !step.is_first {
                break;
            }
        }
        Ok(())
    }
}

/// Writes a block of a tree, with its checksum.
pub(super) fn write_checked(replay: &mut Replay<'_>, byte: u64, block: &mut [u8]) -> Result<()> {
    put_checksum(block, CRC);
    replay.write(byte, block)
}
