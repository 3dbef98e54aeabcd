//! The bytes of a file, and its holes.

use std::os::fd::OwnedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::host::will_read_all;
use crate::copy_out::failed;
use crate::{FileWriter, FsWrite, InodeNumber, Result};

/// Read and written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Copies contents, with one buffer for all files.
#[derive(Debug, Default)]
pub(super) struct Contents {
    buffer: Vec<u8>,
}

impl Contents {
    /// Copies all of `from` into a file that is empty; its holes stay holes. Tells `copied` how
    /// many bytes each piece had.
    pub(super) fn copy(
        &mut self,
        fs: &dyn FsWrite,
        from: &OwnedFd,
        inode: InodeNumber,
        size_bytes: u64,
        copied: &mut dyn FnMut(u64),
    ) -> Result<()> {
        will_read_all(from);
        let mut at = 0;
        while let Some((start, end)) = next_run(from, at)? {
            let done = self.copy_run(fs, from, (inode, start, end), copied)?;
            at = end.max(done);
            if done < end && end != u64::MAX {
                break; // Somebody cut the file meanwhile.
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

    /// Copies a run, and returns where it really ended.
    fn copy_run(
        &mut self,
        fs: &dyn FsWrite,
        from: &OwnedFd,
        (inode, start, end): (InodeNumber, u64, u64),
        copied: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let mut writer = FileWriter::new(fs, inode, start);
        while writer.position() < end {
            let left = end.saturating_sub(writer.position());
            let wanted = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(BUFFER_BYTES);
            let buffer = self.buffer.get_mut(..wanted).unwrap_or_default();
            let read = match rustix::io::pread(from, buffer, writer.position()) {
                Err(Errno::INTR) => continue,
                read => read.map_err(|errno| failed("reading", errno))?,
            };
            let piece = self.buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            writer.put(piece)?;
            copied(u64::try_from(read).unwrap_or(u64::MAX));
        }
        Ok(writer.position())
    }
}

/// The next run of data from `at` on; `None` when there is none. Where the host has no holes, all
/// of the file is one run of unknown end.
fn next_run(file: &OwnedFd, at: u64) -> Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        // Nothing but a hole up to the end (lseek(2)).
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => return Ok(Some((0, u64::MAX))),
        Err(errno) => return Err(failed("looking for holes", errno)),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start));
    let end = end.map_err(|errno| failed("looking for holes", errno))?;
    Ok(Some((start, end)))
}
