//! A regular file to read and write, as `std::io` has it.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use diskfs_vfs::{self as vfs, InodeNumber, SyncFile};

use super::WritableFilesystem;
use crate::file::seek_target;
use crate::{Error, Result};

/// A regular file that is open for reading and writing: [`Read`], [`Write`] and [`Seek`], and positional access from many
/// threads.
///
/// It has no buffer of its own: give it large pieces, or wrap it in a [`std::io::BufWriter`]. It can be read and written
/// until it is dropped, also after its name was removed.
#[derive(Debug)]
pub struct WritableFile {
    filesystem: WritableFilesystem,
    held: Arc<Held>,
    position: u64,
}

/// Keeps the file alive without a name.
#[derive(Debug)]
struct Held {
    filesystem: WritableFilesystem,
    inode: InodeNumber,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.filesystem.as_fs().release(self.inode) {
            tracing::warn!(%error, "a removed file was not released");
        }
    }
}

impl WritableFile {
    pub(super) fn new(filesystem: WritableFilesystem, inode: InodeNumber) -> Self {
        filesystem.as_fs().hold(inode);
        let held = Arc::new(Held {
            filesystem: filesystem.clone(),
            inode,
        });
        Self {
            filesystem,
            held,
            position: 0,
        }
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn size_bytes(&self) -> Result<u64> {
        let metadata = self.filesystem.as_fs().metadata(self.held.inode);
        Ok(metadata.map_err(|e| self.failed(e))?.size_bytes)
    }

    /// Reads into `buf` from byte `offset` on, without moving. Returns how much was read: less than `buf` holds only at
    /// the end of the file.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Unsupported` for encrypted contents.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let fs = self.filesystem.as_fs();
        fs.read_at(self.held.inode, offset, buf)
            .map_err(|e| self.failed(e))
    }

    /// Writes `data` at byte `offset`, without moving. Returns how much was written: less than all only when there is no
    /// room for more.
    ///
    /// # Errors
    /// `NoSpace` when nothing could be written; `Io`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let fs = self.filesystem.as_fs();
        fs.write_at(self.held.inode, offset, data)
            .map_err(|e| self.failed(e))
    }

    /// Truncates the file, or extends it with a hole.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        let fs = self.filesystem.as_fs();
        fs.set_len(self.held.inode, size_bytes)
            .map_err(|e| self.failed(e))
    }

    /// Makes the contents and the name of the file durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn sync_all(&self) -> Result<()> {
        let fs = self.filesystem.as_fs();
        fs.sync_file(self.held.inode, SyncFile::All)
            .map_err(|e| self.failed(e))
    }

    fn failed(&self, error: vfs::Error) -> Error {
        self.filesystem.in_image(error.in_inode(self.held.inode))
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

    /// Does nothing: there is no buffer. [`sync_all`](WritableFile::sync_all) makes the file durable.
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
