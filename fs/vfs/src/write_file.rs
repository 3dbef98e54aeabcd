//! Contents of a file, written as a stream.

use std::io;
use std::ops::ControlFlow;

use crate::numbers::len_u64;
use crate::{Error, ErrorKind, FsWrite, InodeNumber, Result, go_on};

/// Written at once. A driver allocates what it is given in one go, so this is also the least that
/// lies together on the device.
const BUFFER_BYTES: usize = 1 << 20;

/// A regular file to write as a stream, from an offset on.
///
/// It has no buffer of its own: give `write` large pieces.
#[derive(Debug)]
pub struct FileWriter<'a> {
    fs: &'a dyn FsWrite,
    inode: InodeNumber,
    position: u64,
}

impl<'a> FileWriter<'a> {
    /// Writes from `offset` on.
    pub fn new(fs: &'a dyn FsWrite, inode: InodeNumber, offset: u64) -> Self {
        Self {
            fs,
            inode,
            position: offset,
        }
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Leaves out so many bytes: a hole, once something is written behind it or the file is made
    /// longer.
    pub fn skip(&mut self, len_bytes: u64) {
        self.position = self.position.saturating_add(len_bytes);
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// As [`FsWrite::write_at`].
    pub fn put(&mut self, mut data: &[u8]) -> Result<()> {
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

    /// Writes all that `from` has left. Tells `told` how many bytes each piece had.
    ///
    /// # Errors
    /// As [`FsWrite::write_at`], what reading says, and `Cancelled` when `told` answers [`ControlFlow::Break`].
    pub fn put_all(
        &mut self,
        from: &mut dyn io::Read,
        told: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let filled = fill(from, &mut buffer)?;
            let piece = buffer.get(..filled).unwrap_or_default();
            self.put(piece)?;
            go_on(told(len_u64(filled)))?;
            if filled < BUFFER_BYTES {
                return Ok(());
            }
        }
    }
}

/// Reads until `buffer` is full or nothing is left: pipes give little at a time.
fn fill(from: &mut dyn io::Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
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

/// Puts all that `from` has in place of the contents of a regular file, which keeps everything else:
/// number, names, owner, mode, attributes.
///
/// # Errors
/// As [`FsWrite::write_at`], and what reading says. The file is cut short then.
pub fn replace_contents(
    fs: &dyn FsWrite,
    inode: InodeNumber,
    from: &mut dyn io::Read,
    told: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    fs.set_len(inode, 0)?;
    let mut writer = FileWriter::new(fs, inode, 0);
    writer.put_all(from, told)?;
    Ok(writer.position())
}

/// The most that [`shorten`] writes anew. Clusters of blocks (ext4's bigalloc) have 64 KiB unless
/// somebody asked for others.
const REST_MAX_BYTES: u64 = 4 << 20;

/// Makes a regular file shorter, in one transaction where the filesystem has them.
///
/// What is left of its last block or cluster gets a new one: with [`FsWrite::set_len`] alone a
/// filesystem may write zeroes over the rest of the old one before it commits, and a crash in between
/// would show them in a file that still has its old size. A cut within a cluster of more than 4 MiB
/// may do so all the same.
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
    // A hole, for all that anybody sees, stays one.
    if rest.iter().take(read).all(|byte| *byte == 0) {
        return fs.set_len(inode, size_bytes);
    }
    FileWriter::new(fs, inode, whole).put(&rest)
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

    /// Gives a few bytes at a time.
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
        let told = &mut |bytes| {
            pieces.push(bytes);
            ControlFlow::Continue(())
        };
        let written = replace_contents(&fs, inode, &mut Trickle(3_000_000), told).unwrap();
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
    fn a_full_filesystem_is_said_to_be_full() {
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
