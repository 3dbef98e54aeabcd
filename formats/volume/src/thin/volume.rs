//! A thin volume: where its blocks are.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};

use super::Superblock;
use super::device_details::{snapshotted_time, unknown};
use crate::map::{Access, Piece, Target};
use crate::persistent::Blocks;

/// A mapping holds the time in so many low bits, and the block above.
const TIME_BITS: u32 = 24;

/// The map of one thin volume.
#[derive(Debug)]
pub(crate) struct Thin<D: ?Sized> {
    blocks: Blocks<D>,
    /// The tree of this volume: mappings by block.
    root: u64,
    block_bytes: NonZeroU64,
    snapshotted_time: u64,
    data_bytes: u64,
    /// How long the volume is that blocks are taken from that the pool has none for.
    origin_bytes: u64,
}

/// The member that holds the pool's data, and the one that holds an external origin.
const DATA: usize = 0;
const ORIGIN: usize = 1;

impl<D: BlockRead + ?Sized> Thin<D> {
    /// Volume `device_id` of a pool with so much data, on an external origin of so many bytes.
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

    /// What there is from `offset` on.
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
            // With the same time, it is as shared.
            if number(index).is_none() || number(index) != expected {
                break;
            }
            run = run.saturating_add(1);
        }
        let to = mapping >> TIME_BITS;
        let start = to.saturating_mul(self.block_bytes.get());
        let len_bytes = run.saturating_mul(self.block_bytes.get());
        if start.saturating_add(len_bytes) > self.data_bytes {
            let reason = format!("has block {block} in block {to} of its pool, past its end");
            return Err(Error::corrupt(reason));
        }
        let time = mapping & ((1 << TIME_BITS) - 1);
        Ok(Piece {
            len_bytes: len_bytes.saturating_sub(within),
            target: Target::Member {
                member: DATA,
                offset: start.saturating_add(within),
            },
            // `__snapshotted_since`.
            access: if self.snapshotted_time > time {
                Access::Refused("is shared with a snapshot here, and not written")
            } else {
                Access::Granted
            },
        })
    }

    /// From `offset` to the block before `end` the pool has nothing.
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
            access: Access::Refused("has no room in its thin pool here, and is not written"),
        }
    }
}
