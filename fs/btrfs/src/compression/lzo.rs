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
    let mut last = Vec::new();
    while filled < output.len() && at < input.len() {
        at = skip_end(at, sector_bytes);
        let Some(len) = le32(input, at).map(index) else {
            break;
        };
        at = at.saturating_add(LENGTH_BYTES);
        let packed = part(input, at, len).ok_or_else(truncated)?;
        let rest = output.get_mut(filled..).unwrap_or_default();
        let len_bytes = if let Some(sector) = rest.get_mut(..sector_bytes) {
            unpack(packed, sector)?
        } else {
            // The sector may have more bytes than are wanted.
            last.resize(sector_bytes, 0);
            let len_bytes = unpack(packed, &mut last)?;
            super::copy(last.get(..len_bytes).unwrap_or_default(), rest)
        };
        filled = filled.saturating_add(len_bytes);
        at = at.saturating_add(len);
    }
    Ok(filled)
}

fn unpack(packed: &[u8], sector: &mut [u8]) -> Result<usize> {
    lzokay::decompress::decompress(packed, sector).map_err(|e| broken("LZO").with_source(e))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of data: noise, and copies of what is some bytes before.
    fn pieces() -> impl Strategy<Value = Vec<(u8, usize, usize)>> {
        proptest::collection::vec((any::<u8>(), 1..300_usize, 1..200_usize), 1..200)
    }

    proptest! {
        #[test]
        fn data_with_repetitions_is_unpacked(pieces in pieces(), cut in 0..5000_usize) {
            let mut data = Vec::new();
            for (byte, distance, len) in pieces {
                data.push(byte);
                // Short distances are the ones at which runs overlap their copies.
                let distance = if byte < 128 { distance % 20 + 1 } else { distance };
                for _ in 0..len {
                    data.push(data[data.len().saturating_sub(distance)]);
                }
            }
            let mut output = vec![0; data.len().saturating_sub(cut)];
            let filled = decompress(&pack(&data, 4096), &mut output, 4096).unwrap();
            prop_assert_eq!(filled, output.len());
            prop_assert!(output == data[..output.len()]);
        }
    }
}
