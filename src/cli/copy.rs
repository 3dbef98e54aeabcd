//! A file's bytes to somewhere else, in large pieces.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use diskfs::{File, Result};

/// Read at once. Larger gains nothing over the cost of a system call; smaller shows.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// A buffer for copies, as large as the largest of them needs and no larger.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Room for a piece of a run of `len_bytes`.
    fn piece(&mut self, len_bytes: u64) -> &mut [u8] {
        let len = usize::try_from(len_bytes)
            .unwrap_or(usize::MAX)
            .min(BUFFER_BYTES);
        if self.0.len() < len {
            // Either what one small file needs, or the whole of it: not a step for each size.
            let whole = if len > 64 << 10 { BUFFER_BYTES } else { len };
            self.0.resize(whole, 0);
        }
        &mut self.0[..len]
    }
}

/// Writes a range of a file to `out`. Returns how many bytes there were: fewer only when the file is
/// shorter than its metadata says.
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
