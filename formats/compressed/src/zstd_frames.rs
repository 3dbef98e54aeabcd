//! The frames of a zstd file (RFC 8878, section 3).
//!
//! A file with one frame, as `zstd` writes it, can only be decompressed as a whole. Other programs
//! (`t2sz`, `pzstd`) write many frames. In a file without a seek table, the headers of the blocks say
//! where each frame ends.

use diskfs_block::{Error, Result};

use crate::device_reader::DeviceReader;
use crate::units::{UNIT_MAX_BYTES, Units};

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;
/// A block that repeats one byte.
const RLE_BLOCK: u32 = 1;
const RESERVED_BLOCK: u32 = 3;

/// Finds the frames of a file; `None` if it has to be decompressed as a whole.
pub(crate) fn units(mut reader: DeviceReader) -> Result<Option<Units>> {
    let mut units = Units::default();
    loop {
        let offset = reader.position();
        let Some(magic) = reader.take::<4>()?.map(u32::from_le_bytes) else {
            break;
        };
        let unpacked_bytes = match magic {
            MAGIC => match skip_frame(&mut reader, offset)? {
                Some(unpacked_bytes) => unpacked_bytes,
                None => return Ok(None),
            },
            _ if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC => {
                let len = u32::from_le_bytes(next(&mut reader, offset)?);
                reader.skip(len.into());
                0
            }
            _ => return Err(Error::corrupt("no frame of zstd begins here").at(offset)),
        };
        let stored_bytes = reader.position().saturating_sub(offset);
        if !units.push(offset, stored_bytes, unpacked_bytes, 0) {
            return Ok(None);
        }
    }
    Ok(Some(units))
}

/// Skips the rest of a frame, and returns the length of its contents; `None` if that is not in its
/// header, or too large.
fn skip_frame(reader: &mut DeviceReader, offset: u64) -> Result<Option<u64>> {
    let [descriptor] = next(reader, offset)?;
    let is_single_segment = descriptor & 0x20 != 0;
    let window_bytes = u64::from(!is_single_segment);
    let dictionary_bytes = [0, 1, 2, 4].get(usize::from(descriptor & 3));
    reader.skip(window_bytes.saturating_add(*dictionary_bytes.unwrap_or(&0)));
    let content_bytes = match (descriptor >> 6, is_single_segment) {
        (0, false) => return Ok(None),
        (0, true) => u64::from(u8::from_le_bytes(next(reader, offset)?)),
        (1, _) => u64::from(u16::from_le_bytes(next(reader, offset)?)).saturating_add(256),
        (2, _) => u64::from(u32::from_le_bytes(next(reader, offset)?)),
        _ => u64::from_le_bytes(next(reader, offset)?),
    };
    if content_bytes > UNIT_MAX_BYTES {
        return Ok(None);
    }
    loop {
        let at = reader.position();
        let [a, b, c] = next(reader, offset)?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (is_last, kind, size) = (header & 1 != 0, (header >> 1) & 3, header >> 3);
        match kind {
            RLE_BLOCK => reader.skip(1),
            RESERVED_BLOCK => {
                return Err(Error::corrupt("a block of zstd has an unknown type").at(at));
            }
            _ => reader.skip(size.into()),
        }
        if is_last {
            break;
        }
    }
    let has_checksum = descriptor & 4 != 0;
    reader.skip(if has_checksum { 4 } else { 0 });
    Ok(Some(content_bytes))
}

fn next<const N: usize>(reader: &mut DeviceReader, frame: u64) -> Result<[u8; N]> {
    let cut = || Error::corrupt("the file ends within a frame of zstd").at(frame);
    reader.take()?.ok_or_else(cut)
}
