//! The mapping of a thin volume.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};

use super::Superblock;
use super::device_details::{snapshotted_time, unknown};
use crate::map::{Access, Piece, Target};
use crate::persistent::Blocks;

/// The number of low bits of a mapping that hold the time; the block is above them.
const TIME_BITS: u32 = 24;

/// The mapping of one thin volume.
#[derive(Debug)]
pub(crate) struct Thin<D: ?Sized> {
    blocks: Blocks<D>,
    /// The root of the volume's tree: mappings by block.
    root: u64,
    block_bytes: NonZeroU64,
    snapshotted_time: u64,
    data_bytes: u64,
    /// The length of the external origin, which provides the blocks that the pool does not have.
    origin_bytes: u64,
}

/// The indices of the members: the pool's data, and an external origin.
const DATA: usize = 0;
const ORIGIN: usize = 1;

impl<D: BlockRead + ?Sized> Thin<D> {
    /// Opens volume `device_id` of a pool with `data_bytes` of data. `origin_bytes` is the size of
    /// the external origin.
    pub(crate) fn open(
        blocks: Blocks<D>,
        superblock: &Superblock,
        device_id: u64,
        data_bytes: u64,
        origin_bytes: u64,
    ) -> Result<Self> {
        let time = snapshotted_time(&blocks, superblock, device_id)?;
        let root = blocks.number(superblock.data_mapping_root, device_id)?;
        Ok(Self {
            root: root.ok_or_else(|| unknown(device_id))?,
            block_bytes: superblock.block_bytes,
            snapshotted_time: u64::from(time),
            data_bytes,
            origin_bytes,
            blocks,
        })
    }

    /// Returns the piece from `offset` on.
    pub(crate) fn piece_at(&self, offset: u64) -> Result<Piece> {
        let block = offset / self.block_bytes;
        let within = offset % self.block_bytes;
        let found = self.blocks.find(self.root, block, size_of::<u64>())?;
        let number = |index: usize| Some((found.node.key(index)?, found.node.number(index)?));
        let here = found.index.and_then(number);
        let Some((_, mapping)) = here.filter(|(key, _)| *key == block) else {
            let next = found.index.map_or(Some(0), |index| index.checked_add(1));
            let next = next.and_then(|index| found.node.key(index));
            let end = next.or(found.end).filter(|end| *end > block);
            return Ok(self.hole(offset, end));
        };
        let mut run = 1_u64;
        let following = found.index.unwrap_or(0)..usize::MAX;
        for index in following.skip(1) {
            let expected = mapping.checked_add(run << TIME_BITS);
            let expected = block.checked_add(run).zip(expected);
            // Blocks with the same time are shared in the same way.
            if number(index).is_none() || number(index) != expected {
                break;
            }
            run = run.saturating_add(1);
        }
        let to = mapping >> TIME_BITS;
        let start = to.saturating_mul(self.block_bytes.get());
        let len_bytes = run.saturating_mul(self.block_bytes.get());
        if start.saturating_add(len_bytes) > self.data_bytes {
            let reason = format!(
                "has an invalid mapping: block {block} is in block {to}, past the end of its pool"
            );
            return Err(Error::corrupt(reason));
        }
        let time = mapping & ((1 << TIME_BITS) - 1);
        Ok(Piece {
            len_bytes: len_bytes.saturating_sub(within),
            target: Target::Member {
                member: DATA,
                offset: start.saturating_add(within),
            },
            // The same rule as in `__snapshotted_since`.
            access: if self.snapshotted_time > time {
                Access::Refused("shares this block with a snapshot; writing to it is not supported")
            } else {
                Access::Granted
            },
        })
    }

    /// Returns the hole from `offset` to the block before `end`, for which the pool has no blocks.
    fn hole(&self, offset: u64, end: Option<u64>) -> Piece {
        let end = end.map_or(u64::MAX, |end| end.saturating_mul(self.block_bytes.get()));
        let (end, target) = if offset < self.origin_bytes {
            let member = ORIGIN;
            (
                end.min(self.origin_bytes),
                Target::Member { member, offset },
            )
        } else {
            (end, Target::Hole)
        };
        Piece {
            len_bytes: end.saturating_sub(offset),
            target,
            access: Access::Refused(
                "has no block for this range in its thin pool; allocating one is not supported",
            ),
        }
    }
}
