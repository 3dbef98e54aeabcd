//! An open file of a tree.

use diskfs::{Error, ErrorKind, File, Result, WritableFile};

use crate::Tree;
use crate::tree::read_only;

/// The way in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// An existing file for reading.
    Read,
    /// An existing file for reading and writing.
    Write,
    /// An existing or a new file for reading and writing.
    WriteOrCreate,
    /// An empty file for reading and writing: an existing one is truncated.
    Truncate,
    /// A new file for reading and writing, which must not exist.
    CreateNew,
}

/// An open regular file, with positional access from any number of threads.
#[derive(Debug)]
pub enum OpenFile {
    /// A file that can be read.
    Reader(File),
    /// A file that can be read and written.
    Writer(WritableFile),
}

impl OpenFile {
    /// Opens a regular file of a tree.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`, `Exists`; `ReadOnly` for writing to a disk that is open for reading.
    pub fn open(tree: &Tree, path: &[u8], mode: FileMode) -> Result<Self> {
        let reader = tree.reader();
        if mode == FileMode::Read {
            return reader.open(path).map(Self::Reader);
        }
        let writer = tree.writer()?;
        let is_new = match mode {
            FileMode::Read | FileMode::Write => false,
            FileMode::Truncate => true,
            FileMode::WriteOrCreate => !reader.exists(path)?,
            FileMode::CreateNew => {
                if reader.symlink_metadata(path).is_ok() {
                    let reason = format!("{}: file exists", String::from_utf8_lossy(path));
                    return Err(Error::new(ErrorKind::Exists, reason).in_file(reader.image_path()));
                }
                true
            }
        };
        let file = if is_new {
            writer.create(path)
        } else {
            writer.open(path)
        };
        file.map(Self::Writer)
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn size_bytes(&self) -> Result<u64> {
        match self {
            Self::Reader(file) => Ok(file.size_bytes()),
            Self::Writer(file) => file.size_bytes(),
        }
    }

    /// Returns true if the file was opened for writing.
    pub fn is_writable(&self) -> bool {
        matches!(self, Self::Writer(_))
    }

    /// Reads into `buf` from byte `offset` on. Returns the number of bytes read, which is less than
    /// `buf` holds only at the end of the file.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Unsupported` for encrypted contents.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Reader(file) => file.read_at(offset, buf),
            Self::Writer(file) => file.read_at(offset, buf),
        }
    }

    /// Writes all of `data` at byte `offset`.
    ///
    /// # Errors
    /// `NoSpace`, after which a part of the data may be written; `Io`; `ReadOnly` if the file is
    /// open for reading.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.writer()?;
        let (mut offset, mut rest) = (offset, data);
        while !rest.is_empty() {
            let written = file.write_at(offset, rest)?;
            let none = || Error::new(ErrorKind::NoSpace, "no space left");
            rest = rest
                .get(written..)
                .filter(|_| written > 0)
                .ok_or_else(none)?;
            offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Truncates the file, or extends it with a hole.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.writer()?.set_len(size_bytes)
    }

    /// Makes the contents and the name of the file durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn sync(&self) -> Result<()> {
        match self {
            Self::Reader(_) => Ok(()),
            Self::Writer(file) => file.sync_all(),
        }
    }

    fn writer(&self) -> Result<&WritableFile> {
        match self {
            Self::Writer(file) => Ok(file),
            Self::Reader(file) => Err(read_only().in_file(file.node().filesystem().image_path())),
        }
    }
}
