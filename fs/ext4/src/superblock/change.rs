//! Changes of the superblock, in its block and on the device.

use diskfs_block::BlockWrite;
use zerocopy::{FromBytes, IntoBytes};

use crate::bytes::{index, put};
use crate::checksum::crc32c;
use crate::error::write_failed;
use crate::error::{Result, Structure, device_failed, malformed};

use super::{CHECKSUM_CRC32C, RawSuperblock, Superblock, raw};

/// Changes the superblock in `block`, the block that contains it, and updates its checksum.
///
/// # Errors
/// `Corrupt` if the block is too short.
pub(crate) fn change(
    superblock: &Superblock,
    block: &mut [u8],
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let within = index(superblock.block_size.bytes().wrapping_sub(1)) & index(raw::OFFSET_BYTES);
    let bytes = block.get_mut(within..).unwrap_or_default();
    change_bytes(superblock, bytes, change)
}

/// Changes the superblock on the device directly, while nobody else changes it. Its 1024 bytes are
/// one write, but durable only after the next flush.
///
/// # Errors
/// Returns the device's errors.
pub(crate) fn change_on(
    device: &dyn BlockWrite,
    superblock: &Superblock,
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let mut bytes = [0; raw::SIZE_BYTES];
    device
        .read_at(raw::OFFSET_BYTES, &mut bytes)
        .map_err(device_failed)?;
    change_bytes(superblock, &mut bytes, change)?;
    device
        .write_at(raw::OFFSET_BYTES, &bytes)
        .map_err(write_failed)
}

/// Returns the bytes of a superblock, after updating its checksum if it has one.
pub(crate) fn sealed(raw: &mut RawSuperblock) -> [u8; raw::SIZE_BYTES] {
    if raw.s_checksum_type == CHECKSUM_CRC32C {
        let covered = raw.as_bytes().get(..raw::CHECKED_BYTES);
        let checksum = crc32c(u32::MAX, covered.unwrap_or_default());
        raw.s_checksum.set(checksum);
    }
    let mut bytes = [0; raw::SIZE_BYTES];
    put(&mut bytes, 0, raw.as_bytes());
    bytes
}

/// Changes a copy of the superblock in its bytes, and updates its checksum.
///
/// # Errors
/// `Corrupt` if there are too few bytes.
pub(crate) fn change_bytes(
    superblock: &Superblock,
    bytes: &mut [u8],
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let (raw, _) = RawSuperblock::mut_from_prefix(bytes)
        .map_err(|_| malformed(Structure::Superblock, "truncated"))?;
    change(raw);
    if superblock.checksum_seed.is_some() {
        let covered = raw.as_bytes().get(..raw::CHECKED_BYTES);
        let checksum = crc32c(u32::MAX, covered.unwrap_or_default());
        raw.s_checksum.set(checksum);
    }
    Ok(())
}
