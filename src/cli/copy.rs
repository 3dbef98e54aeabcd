//! Copying of a file's bytes, in large pieces.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use diskfs::{File, Result};

/// The number of bytes per read. A larger buffer saves nothing more of the cost of system calls; a
/// smaller one is measurably slower.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// A copy buffer that grows to what the largest copy needs, and no further.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Returns a buffer for the next piece of a run of `len_bytes`.
    fn piece(&mut self, len_bytes: u64) -> &mut [u8] {
        let len = usize::try_from(len_bytes)
            .unwrap_or(usize::MAX)
            .min(BUFFER_BYTES);
        if self.0.len() < len {
            // Either as much as one small file needs, or the maximum: the buffer is not resized for
            // each file.
            let whole = if len > 64 << 10 { BUFFER_BYTES } else { len };
            self.0.resize(whole, 0);
        }
        &mut self.0[..len]
    }
}

/// Writes a range of a file to `out`. Returns the number of bytes written, which is smaller than
/// the range only if the file is shorter than its metadata says.
pub(crate) fn range(
    file: &mut File,
    range: Range<u64>,
    buffer: &mut Buffer,
    mut out: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<u64> {
    let len_bytes = range.end.saturating_sub(range.start);
    let mut done = 0;
    file.seek(SeekFrom::Start(range.start))?;
    while done < len_bytes {
        let piece = buffer.piece(len_bytes - done);
        let read = file.read(piece)?;
        if read == 0 {
            break;
        }
        out(&piece[..read])?;
        done += read as u64;
    }
    Ok(done)
}
