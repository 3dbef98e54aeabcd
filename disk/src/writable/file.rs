//! A regular file for reading and writing, with the traits of `std::io`.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use diskfs_vfs::{self as vfs, InodeNumber, SyncFile};

use super::WritableFilesystem;
use crate::file::seek_target;
use crate::{Error, Result};

/// A regular file that is open for reading and writing: [`Read`], [`Write`] and [`Seek`], and
/// positional access from many threads.
///
/// `WritableFile` does not buffer: use large reads and writes, or wrap it in a
/// [`std::io::BufWriter`]. It stays usable until it is dropped, even after its name was removed.
#[derive(Debug)]
pub struct WritableFile {
    filesystem: WritableFilesystem,
    hold: Arc<FileHold>,
    position: u64,
}

/// A reference that keeps the file alive without a name.
#[derive(Debug)]
struct FileHold {
    filesystem: WritableFilesystem,
    inode: InodeNumber,
}

impl Drop for FileHold {
    fn drop(&mut self) {
        if let Err(error) = self.filesystem.as_fs().release(self.inode) {
            tracing::warn!(%error, "could not release a removed file");
        }
    }
}

impl WritableFile {
    pub(super) fn new(filesystem: WritableFilesystem, inode: InodeNumber) -> Self {
        filesystem.as_fs().hold(inode);
        let hold = Arc::new(FileHold {
            filesystem: filesystem.clone(),
            inode,
        });
        Self {
            filesystem,
            hold,
            position: 0,
        }
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn size_bytes(&self) -> Result<u64> {
        let metadata = self.filesystem.as_fs().metadata(self.hold.inode);
        Ok(metadata.map_err(|e| self.failed(e))?.size_bytes)
    }

    /// Reads into `buf` from byte `offset` on, without moving the position. Returns the number of
    /// bytes read, which is less than `buf` holds only at the end of the file.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Unsupported` for encrypted contents.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let fs = self.filesystem.as_fs();
        fs.read_at(self.hold.inode, offset, buf)
            .map_err(|e| self.failed(e))
    }

    /// Writes `data` at byte `offset`, without moving the position. Returns the number of bytes
    /// written, which is less than `data` has only if no space is left.
    ///
    /// # Errors
    /// `NoSpace` if nothing could be written; `Io`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let fs = self.filesystem.as_fs();
        fs.write_at(self.hold.inode, offset, data)
            .map_err(|e| self.failed(e))
    }

    /// Truncates the file, or extends it with a hole.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        let fs = self.filesystem.as_fs();
        fs.set_len(self.hold.inode, size_bytes)
            .map_err(|e| self.failed(e))
    }

    /// Makes the contents and the name of the file durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn sync_all(&self) -> Result<()> {
        let fs = self.filesystem.as_fs();
        fs.sync_file(self.hold.inode, SyncFile::All)
            .map_err(|e| self.failed(e))
    }

    fn failed(&self, error: vfs::Error) -> Error {
        self.filesystem.in_image(error.in_inode(self.hold.inode))
    }
}

impl Read for WritableFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buf)?;
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}

impl Write for WritableFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.write_at(self.position, data)?;
        self.position = self.position.saturating_add(written as u64);
        Ok(written)
    }

    /// Does nothing, because `WritableFile` does not buffer. [`sync_all`](WritableFile::sync_all)
    /// makes the file durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for WritableFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = seek_target(to, self.position, || self.size_bytes())?;
        Ok(self.position)
    }
}
