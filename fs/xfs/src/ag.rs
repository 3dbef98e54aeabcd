//! The headers of an allocation group: free space (AGF) and inodes (AGI). Each has its own sector
//! after the superblock's.
//!
//! Source: "XFS Algorithms & Data Structures", section "Allocation Groups".

mod agf;
mod agi;
pub(crate) mod tree;

pub(crate) use self::agf::Agf;
pub(crate) use self::agi::Agi;

use diskfs_block::BlockRead;

use crate::bytes::index;
use crate::checksum;
use crate::error::{Result, corrupt, device_failed};
use crate::superblock::Superblock;

/// The largest number of allocation groups that are counted after a replay, since each is a read of
/// the device: an invalid superblock may have 2^32 groups. `mkfs.xfs` makes four groups or groups of
/// 1 TiB; a filesystem of 300 MiB that has grown to 8 TiB has 100000.
pub(crate) const COUNTED_GROUPS_MAX: u32 = 1 << 17;

/// The place and the layout of a header.
struct Header {
    name: &'static str,
    /// The number of its sector in the group.
    sector: u32,
    magic: [u8; 4],
    crc_offset: usize,
    uuid_offset: usize,
}

/// Returns the byte of the device at which a sector of a group starts.
pub(crate) fn sector_byte(superblock: &Superblock, ag: u32, sector: u32) -> u64 {
    let within = u64::from(superblock.sector_bytes).saturating_mul(u64::from(sector));
    superblock.ag_start(ag).saturating_add(within)
}

/// Reads the sector of a header; its magic, and in version 5 its checksum and UUID are verified.
fn read_header(
    device: &dyn BlockRead,
    superblock: &Superblock,
    ag: u32,
    header: &Header,
) -> Result<Vec<u8>> {
    let at = sector_byte(superblock, ag, header.sector);
    let mut bytes = vec![0; index(superblock.sector_bytes)];
    device.read_at(at, &mut bytes).map_err(device_failed)?;
    let name = format!("{} of allocation group {ag}", header.name);
    if !bytes.starts_with(&header.magic) {
        return Err(corrupt(format!("invalid {name}: wrong magic"), at));
    }
    if superblock.has_checksums() {
        checksum::verify(&bytes, header.crc_offset, &name, at)?;
        checksum::verify_uuid(&bytes, header.uuid_offset, &superblock.meta_uuid, &name, at)?;
    }
    Ok(bytes)
}

/// Checks the number and the length that a header stores.
fn check_place(superblock: &Superblock, ag: u32, stored: (u32, u32), at: u64) -> Result<()> {
    let expected = (ag, superblock.ag_len_blocks(ag));
    if stored == expected {
        return Ok(());
    }
    let (seqno, length) = stored;
    let reason = format!(
        "invalid header of allocation group {ag}: it is of group {seqno} with {length} blocks, \
         expected {} blocks",
        expected.1
    );
    Err(corrupt(reason, at))
}
