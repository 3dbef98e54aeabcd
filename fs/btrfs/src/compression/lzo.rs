//! LZO as btrfs stores it (fs/btrfs/lzo.c): a total length, and segments of a sector each, with
//! their lengths. The length of a segment does not cross the end of a sector.

use super::broken;
use crate::bytes::{index, le32, part};
use crate::error::Result;

/// The length of a length.
const LENGTH_BYTES: usize = 4;

/// Decompresses segments until `output` is full or the input ends. Returns the number of bytes.
pub(super) fn decompress(input: &[u8], output: &mut [u8], sector_bytes: usize) -> Result<usize> {
    let truncated = || broken("LZO");
    let total = index(le32(input, 0).ok_or_else(truncated)?);
    let input = input.get(..total).ok_or_else(truncated)?;
    let mut at = LENGTH_BYTES;
    let mut filled = 0_usize;
    let mut sector = vec![0; sector_bytes];
    while filled < output.len() && at < input.len() {
        at = skip_end(at, sector_bytes);
        let Some(len) = le32(input, at).map(index) else {
            break;
        };
        at = at.saturating_add(LENGTH_BYTES);
        let packed = part(input, at, len).ok_or_else(truncated)?;
        let len_bytes = lzokay::decompress::decompress(packed, &mut sector)
            .map_err(|e| broken("LZO").with_source(e))?;
        let bytes = sector.get(..len_bytes).unwrap_or_default();
        let rest = output.get_mut(filled..).unwrap_or_default();
        filled = filled.saturating_add(super::copy(bytes, rest));
        at = at.saturating_add(len);
    }
    Ok(filled)
}

/// Skips the end of a sector that is too short for a length.
fn skip_end(at: usize, sector_bytes: usize) -> usize {
    let used = at.checked_rem(sector_bytes).unwrap_or(0);
    let left = sector_bytes.saturating_sub(used);
    if left < LENGTH_BYTES {
        at.saturating_add(left)
    } else {
        at
    }
}

/// Compresses as Linux does.
#[cfg(test)]
pub(super) fn pack(data: &[u8], sector_bytes: usize) -> Vec<u8> {
    let mut packed = vec![0; LENGTH_BYTES];
    for sector in data.chunks(sector_bytes) {
        packed.resize(skip_end(packed.len(), sector_bytes), 0);
        let segment = lzokay::compress::compress(sector).unwrap();
        packed.extend(u32::try_from(segment.len()).unwrap().to_le_bytes());
        packed.extend(segment);
    }
    let total = u32::try_from(packed.len()).unwrap();
    packed[..LENGTH_BYTES].copy_from_slice(&total.to_le_bytes());
    packed
}
