//! Writing of a file as a stream.

use std::io;
use std::ops::ControlFlow;

use crate::numbers::len_u64;
use crate::{Error, ErrorKind, FsWrite, InodeNumber, Result, check_cancelled};

/// The size of a write. A driver allocates the space of one write at once, so this is also the
/// minimum that is contiguous on the device.
const BUFFER_BYTES: usize = 1 << 20;
/// The size of the buffer until a file turns out to be larger.
const SMALL_BUFFER_BYTES: usize = 16 << 10;

/// A regular file to write as a stream, from an offset on.
///
/// `FileWriter` does not buffer: use large writes.
#[derive(Debug)]
pub struct FileWriter<'a> {
    fs: &'a dyn FsWrite,
    inode: InodeNumber,
    position: u64,
}

impl<'a> FileWriter<'a> {
    /// Returns a writer that starts at `offset`.
    pub fn new(fs: &'a dyn FsWrite, inode: InodeNumber, offset: u64) -> Self {
        Self {
            fs,
            inode,
            position: offset,
        }
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Skips this number of bytes. They become a hole when data is written after them, or when the
    /// file is extended.
    pub fn skip(&mut self, len_bytes: u64) {
        self.position = self.position.saturating_add(len_bytes);
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// As [`FsWrite::write_at`].
    pub fn write_all(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let written = self.fs.write_at(self.inode, self.position, data)?;
            if written == 0 {
                return Err(Error::from(ErrorKind::NoSpace).in_inode(self.inode));
            }
            data = data.get(written..).unwrap_or_default();
            self.skip(len_u64(written));
        }
        Ok(())
    }

    /// Writes all remaining data of `from`. Calls `progress` with the size of each piece.
    ///
    /// # Errors
    /// As [`FsWrite::write_at`], the errors of reading, and `Cancelled` if `progress` returns
    /// [`ControlFlow::Break`].
    pub fn write_from(
        &mut self,
        from: &mut dyn io::Read,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; SMALL_BUFFER_BYTES];
        loop {
            let mut filled = fill(from, &mut buffer, 0)?;
            if filled == SMALL_BUFFER_BYTES {
                buffer.resize(BUFFER_BYTES, 0);
                filled = fill(from, &mut buffer, filled)?;
            }
            let piece = buffer.get(..filled).unwrap_or_default();
            self.write_all(piece)?;
            check_cancelled(progress(len_u64(filled)))?;
            if filled < BUFFER_BYTES {
                return Ok(());
            }
        }
    }
}

/// Reads into the rest of `buffer` until it is full or the end is reached: pipes return little at a
/// time. Returns the number of bytes that are filled.
fn fill(from: &mut dyn io::Read, buffer: &mut [u8], mut filled: usize) -> io::Result<usize> {
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled = filled.saturating_add(read),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Replaces the contents of a regular file. Everything else is kept: inode number, names, owner,
/// mode, attributes.
///
/// # Errors
/// As [`FsWrite::write_at`], and the errors of reading. After an error the file is truncated.
pub fn replace_contents(
    fs: &dyn FsWrite,
    inode: InodeNumber,
    from: &mut dyn io::Read,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    fs.set_len(inode, 0)?;
    let mut writer = FileWriter::new(fs, inode, 0);
    writer.write_from(from, progress)?;
    Ok(writer.position())
}

/// The limit on the bytes that [`shorten`] writes again. Clusters of blocks (ext4's bigalloc) have
/// 64 KiB by default.
const REST_MAX_BYTES: u64 = 4 << 20;

/// Truncates a regular file, in one transaction if the filesystem has transactions.
///
/// The rest of its last block or cluster is written to a new one. With [`FsWrite::set_len`] alone,
/// a filesystem may zero the tail of the old block before it commits, and a crash in between would
/// leave these zeroes in a file that still has its old size. That remains possible for a cut within
/// a cluster of more than 4 MiB.
///
/// # Errors
/// As [`FsWrite::set_len`] and [`FsWrite::write_at`].
pub fn shorten(fs: &dyn FsWrite, inode: InodeNumber, size_bytes: u64) -> Result<()> {
    let unit = u64::from(fs.statistics()?.allocation_size).min(REST_MAX_BYTES);
    let rest_bytes = size_bytes.checked_rem(unit).unwrap_or(0);
    let whole = size_bytes.saturating_sub(rest_bytes);
    let mut rest = vec![0; usize::try_from(rest_bytes).unwrap_or(0)];
    let read = fs.read_at(inode, whole, &mut rest)?;
    fs.set_len(inode, whole)?;
    // A rest of only zeroes becomes a hole, which reads the same.
    if rest.iter().take(read).all(|byte| *byte == 0) {
        return fs.set_len(inode, size_bytes);
    }
    FileWriter::new(fs, inode, whole).write_all(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Limits, WritableMemoryFs};
    use crate::{FsRead, NewAttributes, NewKind};

    fn file(fs: &WritableMemoryFs) -> InodeNumber {
        let attributes = NewAttributes::for_root(0o600);
        fs.create(fs.root(), b"f", NewKind::Regular, &attributes)
            .unwrap()
    }

    /// A reader that returns a few bytes at a time.
    struct Trickle(u64);

    impl io::Read for Trickle {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = buf.len().min(1000).min(self.0.try_into().unwrap());
            buf[..len].fill(7);
            self.0 -= len as u64;
            Ok(len)
        }
    }

    #[test]
    fn contents_are_replaced_in_large_pieces() {
        let fs = WritableMemoryFs::new();
        let inode = file(&fs);
        fs.write_at(inode, 0, &[1; 10]).unwrap();
        let mut pieces = Vec::new();
        let progress = &mut |bytes| {
            pieces.push(bytes);
            ControlFlow::Continue(())
        };
        let written = replace_contents(&fs, inode, &mut Trickle(3_000_000), progress).unwrap();
        assert_eq!(written, 3_000_000);
        assert_eq!(pieces, [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]);
        assert_eq!(fs.metadata(inode).unwrap().size_bytes, 3_000_000);
        replace_contents(&fs, inode, &mut io::empty(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(fs.metadata(inode).unwrap().size_bytes, 0);
    }

    #[test]
    fn files_of_all_sizes_around_the_small_buffer_are_whole() {
        let fs = WritableMemoryFs::new();
        let inode = file(&fs);
        let small = SMALL_BUFFER_BYTES as u64;
        for size in [1, small - 1, small, small + 1, 1 << 20, (1 << 20) + small] {
            let progress = &mut |_| ControlFlow::Continue(());
            let written = replace_contents(&fs, inode, &mut Trickle(size), progress);
            assert_eq!(written.unwrap(), size);
            let mut contents = vec![0; usize::try_from(size).unwrap() + 1];
            let read = fs.read_at(inode, 0, &mut contents).unwrap();
            assert_eq!(read as u64, size);
            assert!(contents[..read].iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_full_filesystem_is_reported_as_full() {
        let fs = WritableMemoryFs::with_limits(Limits {
            blocks: 3,
            inodes: 100,
        });
        let inode = file(&fs);
        let error = replace_contents(&fs, inode, &mut Trickle(100_000), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
}
