//! The `FSInfo` sector of FAT32 with the count of free clusters (fatgen103, "FAT32 `FSInfo` Sector
//! Structure"). It is only a hint: this driver counts the free clusters itself, and writes the
//! sector for other implementations.

use diskfs_block::{BlockRead, BlockWrite};

use crate::bytes::{le32, put};
use crate::error::{Result, device_failed};

const LEAD_SIGNATURE: u32 = 0x4161_5252;
const STRUCTURE_SIGNATURE: u32 = 0x6141_7272;
const STRUCTURE_OFFSET: usize = 484;
const FREE_OFFSET: usize = 488;
const NEXT_OFFSET: usize = 492;
const SECTOR_BYTES: usize = 512;

/// Writes the numbers to the sector at `offset`, if that is an `FSInfo` sector. Returns true if the
/// sector has changed.
pub(crate) fn write(
    device: &dyn BlockWrite,
    offset: u64,
    free_clusters: u32,
    next: u32,
) -> Result<bool> {
    let Some(bytes) = changed(device, offset, free_clusters, next)? else {
        return Ok(false);
    };
    device.write_at(offset, &bytes).map_err(device_failed)?;
    Ok(true)
}

/// Returns the bytes of the sector at `offset` with these numbers; `None` if it is not an `FSInfo`
/// sector, or has the numbers already.
pub(crate) fn changed(
    device: &dyn BlockRead,
    offset: u64,
    free_clusters: u32,
    next: u32,
) -> Result<Option<[u8; SECTOR_BYTES]>> {
    let mut bytes = [0; SECTOR_BYTES];
    device.read_at(offset, &mut bytes).map_err(device_failed)?;
    let is_info = le32(&bytes, 0) == Some(LEAD_SIGNATURE)
        && le32(&bytes, STRUCTURE_OFFSET) == Some(STRUCTURE_SIGNATURE);
    let before = bytes;
    put(&mut bytes, FREE_OFFSET, &free_clusters.to_le_bytes());
    put(&mut bytes, NEXT_OFFSET, &next.to_le_bytes());
    Ok((is_info && bytes != before).then_some(bytes))
}

/// Returns the bytes of a new `FSInfo` sector.
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
