//! The sector with the count of free clusters, in FAT32 (fatgen103, "FAT32 `FSInfo` Sector Structure").
//! It is a hint: we count ourselves, and write it for others.

use diskfs_block::{BlockRead, BlockWrite};

use crate::bytes::{le32, put};
use crate::error::{Result, device_failed};

const LEAD_SIGNATURE: u32 = 0x4161_5252;
const STRUCTURE_SIGNATURE: u32 = 0x6141_7272;
const STRUCTURE_OFFSET: usize = 484;
const FREE_OFFSET: usize = 488;
const NEXT_OFFSET: usize = 492;
const SECTOR_BYTES: usize = 512;

/// Puts the numbers into the sector at `offset`, if it is one of those. Returns whether that changed
/// anything.
pub(crate) fn write(
    device: &dyn BlockWrite,
    offset: u64,
    free_clusters: u32,
    next: u32,
) -> Result<bool> {
    let mut bytes = [0; SECTOR_BYTES];
    BlockRead::read_at(device, offset, &mut bytes).map_err(device_failed)?;
    let is_info = le32(&bytes, 0) == Some(LEAD_SIGNATURE)
        && le32(&bytes, STRUCTURE_OFFSET) == Some(STRUCTURE_SIGNATURE);
    let before = bytes;
    put(&mut bytes, FREE_OFFSET, &free_clusters.to_le_bytes());
    put(&mut bytes, NEXT_OFFSET, &next.to_le_bytes());
    if !is_info || bytes == before {
        return Ok(false);
    }
    device.write_at(offset, &bytes).map_err(device_failed)?;
    Ok(true)
}

/// A new one.
pub(crate) fn encode(free_clusters: u32, next: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    put(&mut bytes, 0, &LEAD_SIGNATURE.to_le_bytes());
    put(
        &mut bytes,
        STRUCTURE_OFFSET,
        &STRUCTURE_SIGNATURE.to_le_bytes(),
    );
    put(&mut bytes, FREE_OFFSET, &free_clusters.to_le_bytes());
    put(&mut bytes, NEXT_OFFSET, &next.to_le_bytes());
    put(&mut bytes, 510, &[0x55, 0xaa]);
    bytes
}
