//! Looking up a number in the tree of chunks of inodes (inobt).
//!
//! It is only asked for bytes that are not an inode, to tell a number that nobody uses from damage.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Inode B+trees" and "Sparse Inodes".

use crate::ag::Agi;
use crate::ag::tree::{INOBT, Records};
use crate::bytes::{be16, be32};
use crate::error::Result;
use crate::features::Incompatible;
use crate::superblock::INODES_PER_CHUNK;
use crate::volume::Volume;

/// The number of inodes for which a sparse chunk has one bit in `ir_holemask`.
const INODES_PER_HOLE_BIT: u32 = 4;

/// Returns true if an inode is in a chunk, whether it is in use or free.
pub(super) fn contains(volume: &Volume, number: u64) -> Result<bool> {
    let Some((ag, within)) = volume.superblock.inode_place(number) else {
        return Ok(false);
    };
    let agi = Agi::read(&*volume.device, &volume.superblock, ag)?;
    let mut chunks = Records::new(volume, INOBT, ag, agi.tree, within);
    let Some(chunk) = chunks.next().transpose()? else {
        return Ok(false);
    };
    let nth = within.checked_sub(be32(&chunk, 0).unwrap_or(u32::MAX));
    Ok(match nth.filter(|nth| *nth < INODES_PER_CHUNK) {
        Some(nth) if volume.superblock.features.has(Incompatible::SPINODES) => {
            let holes = be16(&chunk, 4).unwrap_or(0);
            let bit = nth.checked_div(INODES_PER_HOLE_BIT).unwrap_or(0);
            holes & 1_u16.wrapping_shl(bit) == 0
        }
        other => other.is_some(),
    })
}
