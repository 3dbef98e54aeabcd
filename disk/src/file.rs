//! A regular file of an image, with the traits of `std::io`.

use std::io::{self, Read, Seek, SeekFrom};

use diskfs_vfs::{self as vfs, ErrorKind, FileType, Follow, Metadata, ReadAhead};

use crate::{Error, Filesystem, Node, Result};

/// An open regular file of an image: [`Read`] and [`Seek`], and positional reads from many threads.
///
/// `File` does not buffer: pass a large buffer to `read`, or wrap the file in a
/// [`std::io::BufReader`].
#[derive(Debug, Clone)]
pub struct File {
    node: Node,
    size_bytes: u64,
    position: u64,
    read_ahead: ReadAhead,
}

impl Filesystem {
    /// Opens a regular file for reading and seeking.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<File> {
        self.node(path, Follow::All)?.open()
    }
}

impl Node {
    /// Opens a regular file for reading and seeking.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for another type of file.
    pub fn open(self) -> Result<File> {
        let metadata = self.metadata()?;
        self.open_with(&metadata)
    }

    /// Opens a regular file whose metadata the caller has already, for example from a walk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(self, metadata: &Metadata) -> Result<File> {
        check_is_regular(metadata).map_err(|e| self.in_image(e))?;
        Ok(File {
            node: self,
            size_bytes: metadata.size_bytes,
            position: 0,
            read_ahead: ReadAhead::at(0),
        })
    }
}

impl File {
    /// Returns the [`Node`] of the file, which gives its metadata and extended attributes.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads into `buf` from byte `offset` on, without moving the position. Returns the number of
    /// bytes read, which is less than `buf` holds only at the end of the file.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Unsupported` for encrypted contents.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let fs = self.node.filesystem().as_fs();
        fs.read_at(self.node.inode(), offset, buf)
            .map_err(|e| self.node.in_image(e))
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let end_of_read = self.position.saturating_add(buf.len() as u64);
        let fs = self.node.filesystem().as_fs();
        let inode = self.node.inode();
        self.read_ahead
            .before_read(fs, inode, end_of_read, self.size_bytes);
        let read = self.read_at(self.position, buf)?;
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = seek_target(to, self.position, || Ok(self.size_bytes))?;
        // The announced sequential read ends only if the position really changes.
        if target != self.position {
            self.position = target;
            self.read_ahead = ReadAhead::at(target);
        }
        Ok(target)
    }
}

/// Fails unless the metadata is that of a regular file.
pub(crate) fn check_is_regular(metadata: &Metadata) -> vfs::Result<()> {
    match metadata.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(ErrorKind::IsADirectory.into()),
        _ => Err(vfs::Error::new(ErrorKind::Invalid, "not a regular file")),
    }
}

/// Returns the target of a seek from byte `position`.
///
/// # Errors
/// `Invalid` for a target before the first byte; the errors of `size_bytes`.
pub(crate) fn seek_target(
    to: SeekFrom,
    position: u64,
    size_bytes: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    let target = match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::End(delta) => size_bytes()?.checked_add_signed(delta),
        SeekFrom::Current(delta) => position.checked_add_signed(delta),
    };
    let before_start = || {
        Error::new(
            crate::ErrorKind::Invalid,
            "cannot seek to before the first byte",
        )
    };
    target.ok_or_else(before_start)
}
