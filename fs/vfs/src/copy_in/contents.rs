//! The contents of a file, and its holes.

use std::ops::ControlFlow;

use super::source::SourceData;
use crate::numbers::len_u64;
use crate::{FileWriter, FsWrite, InodeNumber, Result, check_cancelled};

/// The size of a read and of a write.
const BUFFER_BYTES: usize = 1 << 20;

/// Copies file contents, with one buffer for all files.
#[derive(Debug, Default)]
pub(super) struct ContentsCopier {
    buffer: Vec<u8>,
}

impl ContentsCopier {
    /// Copies all of `from` into an empty file and preserves holes. Calls `copied` with the size of
    /// each piece.
    pub(super) fn copy(
        &mut self,
        fs: &dyn FsWrite,
        from: &mut dyn SourceData,
        inode: InodeNumber,
        size_bytes: u64,
        copied: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut at = 0;
        while let Some((start, end)) = from.next_run(at)? {
            let done = self.copy_run(fs, from, (inode, start, end), copied)?;
            at = end.max(done);
            if done < end && end != u64::MAX {
                break; // The file has shrunk, or its size is wrong.
            }
            if end == u64::MAX {
                at = done;
                break;
            }
        }
        if at < size_bytes {
            fs.set_len(inode, size_bytes)?;
        }
        Ok(())
    }

    /// Copies a run of data, and returns its real end.
    fn copy_run(
        &mut self,
        fs: &dyn FsWrite,
        from: &mut dyn SourceData,
        (inode, start, end): (InodeNumber, u64, u64),
        copied: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let mut writer = FileWriter::new(fs, inode, start);
        while writer.position() < end {
            let left = end.saturating_sub(writer.position());
            let wanted = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(BUFFER_BYTES);
            let buffer = self.buffer.get_mut(..wanted).unwrap_or_default();
            let read = from.read_at(writer.position(), buffer)?;
            let piece = self.buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            writer.write_all(piece)?;
            check_cancelled(copied(len_u64(read)))?;
        }
        Ok(writer.position())
    }
}
