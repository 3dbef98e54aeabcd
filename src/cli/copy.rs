//! A file's bytes to somewhere else, in large pieces.

use std::io::Write;

use diskfs::vfs::{InodeNumber, ReadAhead};
use diskfs::{Filesystem, Result};

use super::progress::Progress;

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

/// A file to be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) filesystem: &'a Filesystem,
    pub(crate) inode: InodeNumber,
    /// For errors.
    pub(crate) path: &'a [u8],
}

/// Writes `len_bytes` of a file from `offset` on to `out`. Returns how many there were: fewer only
/// when the file is shorter than its metadata says.
pub(crate) fn range(
    Source {
        filesystem,
        inode,
        path,
    }: Source<'_>,
    (offset, len_bytes): (u64, u64),
    buffer: &mut Buffer,
    mut out: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<u64> {
    let fs = filesystem.as_fs();
    let mut done = 0;
    let end = offset.saturating_add(len_bytes);
    let mut read_ahead = ReadAhead::at(offset);
    while done < len_bytes {
        let piece = buffer.piece(len_bytes - done);
        let end_of_piece = offset + done + piece.len() as u64;
        read_ahead.before_read(fs, inode, end_of_piece, end);
        let read = fs.read_at(inode, offset + done, piece);
        let read = read.map_err(|e| filesystem.in_image(e.in_path(path)))?;
        if read == 0 {
            break;
        }
        out(&piece[..read])?;
        done += read as u64;
    }
    Ok(done)
}

/// Writes a whole file of `size_bytes` to `out`.
pub(crate) fn whole(
    source: Source<'_>,
    size_bytes: u64,
    (buffer, progress): (&mut Buffer, &mut Progress),
    out: &mut dyn Write,
) -> Result<u64> {
    range(source, (0, size_bytes), buffer, |piece| {
        out.write_all(piece)?;
        progress.advance(piece.len() as u64);
        Ok(())
    })
}
