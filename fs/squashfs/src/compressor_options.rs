//! The compressor's options: a metadata block after the superblock, if `COMPRESSOR_OPTIONS` is set.
//!
//! They say how the image was made. Only LZ4's version matters for reading: there may be another
//! format one day. The block is stored without compression, since nothing says how to read it.

use diskfs_block::bytes::{le16, le32};
use diskfs_block::{BlockRead, read_within};

use crate::compressor::Compressor;
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::superblock::SUPERBLOCK_BYTES;

/// The only version of LZ4 options: blocks in the legacy format.
const LZ4_LEGACY: u32 = 1;

/// The size bits of a metadata block's header.
const SIZE_MASK: u16 = 0x7fff;

/// Checks the options of `compressor`.
///
/// # Errors
/// `Unsupported` for another version of LZ4; `Corrupt` if the options lie outside the device.
pub(crate) fn check(device: &dyn BlockRead, compressor: Compressor) -> Result<()> {
    let read = |at, len| read_within(device, at, len).map_err(device_failed);
    let place = u64::try_from(SUPERBLOCK_BYTES).unwrap_or(u64::MAX);
    let missing = || corrupt("invalid compressor options: outside of the device", place);
    let header = read(place, 2)?.ok_or_else(missing)?;
    let size = usize::from(le16(&header, 0).unwrap_or_default() & SIZE_MASK);
    if compressor != Compressor::Lz4 {
        return Ok(());
    }
    if size < 8 {
        return Err(corrupt("invalid LZ4 options: less than 8 bytes", place));
    }
    let options = read(place.saturating_add(2), 8)?.ok_or_else(missing)?;
    match le32(&options, 0) {
        Some(LZ4_LEGACY) => Ok(()),
        other => {
            let version = other.unwrap_or_default();
            let reason = format!("squashfs with version {version} of LZ4 is not supported");
            Err(Error::new(ErrorKind::Unsupported, reason).at(place))
        }
    }
}
