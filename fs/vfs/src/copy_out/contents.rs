//! The contents of a file, and its holes.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use super::host::failed;
use crate::numbers::len_u64;
use crate::{
    Error, ErrorKind, FileExtentKind, FsRead, InodeNumber, ReadAhead, Result, check_cancelled,
};

/// The size of a read and of a write: a larger one gains nothing over the cost of a system call.
const BUFFER_BYTES: usize = 1 << 20;

/// A run of bytes of a file.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
}

/// Copies file contents, with one buffer for all files.
#[derive(Debug, Default)]
pub(super) struct ContentsCopier {
    buffer: Vec<u8>,
}

impl ContentsCopier {
    /// Copies the stored runs of a file of `size_bytes` and preserves its holes. Calls `copied`
    /// with the size of each piece.
    pub(super) fn copy(
        &mut self,
        fs: &dyn FsRead,
        inode: InodeNumber,
        size_bytes: u64,
        to: BorrowedFd<'_>,
        copied: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        if size_bytes == 0 {
            return Ok(());
        }
        // In small files, holes are not worth the query.
        if size_bytes <= 4096 {
            let whole = Run {
                start: 0,
                end: size_bytes,
            };
            return self.copy_run(fs, inode, whole, to, copied);
        }
        let mut pending: Option<Run> = None;
        for extent in fs.extents_of(inode, 0)? {
            let extent = extent?;
            let end = extent
                .offset
                .saturating_add(extent.len_bytes)
                .min(size_bytes);
            if extent.kind == FileExtentKind::Hole || extent.offset >= end {
                continue;
            }
            match &mut pending {
                Some(run) if run.end == extent.offset => run.end = end,
                _ => {
                    let next = Run {
                        start: extent.offset,
                        end,
                    };
                    if let Some(run) = pending.replace(next) {
                        self.copy_run(fs, inode, run, to, copied)?;
                    }
                }
            }
        }
        if let Some(run) = pending {
            self.copy_run(fs, inode, run, to, copied)?;
        }
        // The size is set explicitly because the file may end with a hole.
        rustix::fs::ftruncate(to, size_bytes).map_err(|errno| failed("setting the size", errno))
    }

    fn copy_run(
        &mut self,
        fs: &dyn FsRead,
        inode: InodeNumber,
        run: Run,
        to: BorrowedFd<'_>,
        copied: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut at = run.start;
        let mut read_ahead = ReadAhead::at(run.start);
        while at < run.end {
            let piece = self.piece(run.end.saturating_sub(at));
            let piece_end = at.saturating_add(len_u64(piece.len()));
            read_ahead.before_read(fs, inode, piece_end, run.end);
            let read = fs.read_at(inode, at, piece)?;
            let data = piece.get(..read).unwrap_or_default();
            if data.is_empty() {
                let reason = "the file ends before its size";
                return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(inode));
            }
            write(to, data, at)?;
            at = at.saturating_add(len_u64(data.len()));
            check_cancelled(copied(len_u64(data.len())))?;
        }
        Ok(())
    }

    /// Returns the buffer for the next piece of a run with `left` remaining bytes.
    fn piece(&mut self, left: u64) -> &mut [u8] {
        let wanted = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(BUFFER_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted.next_power_of_two(), 0);
        }
        self.buffer.get_mut(..wanted).unwrap_or_default()
    }
}

fn write(to: BorrowedFd<'_>, mut data: &[u8], mut offset: u64) -> Result<()> {
    while !data.is_empty() {
        let written = match rustix::io::pwrite(to, data, offset) {
            Err(rustix::io::Errno::INTR) => continue,
            written => written.map_err(|errno| failed("writing", errno))?,
        };
        data = data.get(written..).unwrap_or_default();
        offset = offset.saturating_add(len_u64(written));
    }
    Ok(())
}
