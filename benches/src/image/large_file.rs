//! The large files, of which one is read sequentially and at random.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// The length of a run. Every second run has half the entropy, so that the compressed image has
/// both compressed clusters and uncompressed ones. A multiple of qcow2's default cluster size.
const RUN_BYTES: u64 = 1 << 20;

/// Writes a file of that length: pseudo-random words, the same each time.
pub(crate) fn write(path: &Path, len_bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for at in (0..len_bytes).step_by(8) {
        state = xorshift(state);
        let is_dull = (at / RUN_BYTES) % 2 == 1;
        let word = if is_dull {
            state & 0x0f0f_0f0f_0f0f_0f0f
        } else {
            state
        };
        out.write_all(&word.to_le_bytes())?;
    }
    out.flush()?;
    out.get_ref().sync_all().context("syncing the large file")
}

/// Marsaglia's xorshift64 with the shifts 13, 7, 17.
fn xorshift(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xorshift_does_not_stand_still() {
        let mut x = 1;
        for _ in 0..1000 {
            let next = xorshift(x);
            assert!(next != x && next != 0);
            x = next;
        }
    }
}
