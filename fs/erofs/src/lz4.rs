//! Decompression of the beginning of an LZ4 block.
//!
//! The crate `lz4_flex` decompresses whole blocks only. Extents that share their data want a part
//! of it, and old images have zeroes after a block, whose end only the output tells.
//!
//! <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>

/// The length at which more bytes of it follow.
const MORE: usize = 15;

/// The minimum length of a match.
const MATCH_MIN: usize = 4;

/// A reader of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns a length whose first four bits are known.
    fn length(&mut self, first: usize) -> Option<usize> {
        let mut len = first;
        if first == MORE {
            loop {
                let byte = self.byte()?;
                len = len.checked_add(byte.into())?;
                if byte != u8::MAX {
                    break;
                }
            }
        }
        Some(len)
    }
}

/// Fills `output` with the first bytes of a block; returns `None` if the block is invalid or has
/// fewer bytes. What comes after them is not checked.
pub(crate) fn decompress_start(input: &[u8], output: &mut [u8]) -> Option<()> {
    let mut input = Input(input);
    let mut done = 0_usize;
    while done < output.len() {
        let token = usize::from(input.byte()?);
        let literals = input.length(token.wrapping_shr(4))?;
        let rest = output.get_mut(done..)?;
        let wanted = literals.min(rest.len());
        let (target, _) = rest.split_at_mut_checked(wanted)?;
        target.copy_from_slice(input.take(wanted)?);
        done = done.checked_add(wanted)?;
        if done == output.len() {
            break;
        }
        let distance = usize::from(u16::from_le_bytes([input.byte()?, input.byte()?]));
        let len = input.length(token & MORE)?.checked_add(MATCH_MIN)?;
        done = copy_match(output, done, distance, len)?;
    }
    Some(())
}

/// Repeats `len` bytes from `distance` bytes before, at most to the end of `output`. Returns the
/// new end.
fn copy_match(output: &mut [u8], done: usize, distance: usize, len: usize) -> Option<usize> {
    let from = done.checked_sub(distance).filter(|_| distance > 0)?;
    let end = done.saturating_add(len).min(output.len());
    let mut at = done;
    while at < end {
        // The source may overlap what is written: each round copies what exists, which doubles it.
        let available = at.checked_sub(from)?.min(end.checked_sub(at)?);
        output.copy_within(from..from.checked_add(available)?, at);
        at = at.checked_add(available)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_blocks_are_those_of_the_whole() {
        let mut text = b"abcabcabcabcabcabcabc, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec();
        text.extend((0..3000_u32).map(|n| u8::try_from(n * n % 251).unwrap()));
        text.extend_from_within(100..2000);
        let block = lz4_flex::block::compress(&text);
        for len in [0, 1, 4, 20, 30, 59, 400, 3000, text.len()] {
            let mut start = vec![0; len];
            decompress_start(&block, &mut start).unwrap();
            assert!(start == text[..len], "{len}");
        }
        let mut more = vec![0; text.len() + 1];
        assert!(decompress_start(&block, &mut more).is_none());
    }

    #[test]
    fn invalid_blocks_are_refused() {
        for block in [
            &b""[..],
            b"\x10",
            b"\x00\x00\x00",
            b"\x10a\x02\x00",
            b"\xf0\xff",
        ] {
            assert!(
                decompress_start(block, &mut [0; 100]).is_none(),
                "{block:?}"
            );
        }
    }
}
