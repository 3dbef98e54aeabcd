//! An open file of a tree.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, Weak};

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

/// An open regular file, with positional access from any number of threads. Closing the disk closes
/// it, too.
#[derive(Debug)]
pub struct OpenFile(Arc<Handle>);

/// A file that its owner or its disk closes, whichever comes first.
#[derive(Debug)]
struct Handle {
    image: PathBuf,
    is_writable: bool,
    /// The file; `None` after its disk was closed. A file keeps the image open, and locked.
    file: RwLock<Option<AnyFile>>,
}

#[derive(Debug)]
enum AnyFile {
    Reader(File),
    Writer(WritableFile),
}

/// The files of a disk that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Vec<Weak<Handle>>);

impl OpenFiles {
    /// Notes a file, which is closed with the others.
    pub(crate) fn add(&mut self, file: &OpenFile) {
        // Entries of closed files are removed before the list grows: its length stays below twice
        // the largest number of files that were open at once.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|handle| handle.strong_count() > 0);
        }
        self.0.push(Arc::downgrade(&file.0));
    }

    /// Closes all files, after the calls that use them have returned.
    pub(crate) fn close(&mut self) {
        for handle in self.0.drain(..).filter_map(|handle| handle.upgrade()) {
            let mut file = handle.file.write().unwrap_or_else(PoisonError::into_inner);
            *file = None;
        }
    }
}

impl AnyFile {
    fn open(tree: &Tree, path: &[u8], mode: FileMode) -> Result<Self> {
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

    fn size_bytes(&self) -> Result<u64> {
        match self {
            Self::Reader(file) => Ok(file.size_bytes()),
            Self::Writer(file) => file.size_bytes(),
        }
    }

    fn writer(&self) -> Result<&WritableFile> {
        match self {
            Self::Writer(file) => Ok(file),
            Self::Reader(file) => Err(read_only().in_file(file.node().filesystem().image_path())),
        }
    }
}

impl OpenFile {
    pub(crate) fn open(tree: &Tree, path: &[u8], mode: FileMode) -> Result<Self> {
        let file = AnyFile::open(tree, path, mode)?;
        Ok(Self(Arc::new(Handle {
            image: tree.reader().image_path().to_owned(),
            is_writable: matches!(file, AnyFile::Writer(_)),
            file: RwLock::new(Some(file)),
        })))
    }

    /// Returns true if the file was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.0.is_writable
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Invalid` after the disk was closed.
    pub fn size_bytes(&self) -> Result<u64> {
        self.with(AnyFile::size_bytes)
    }

    /// Reads into `buf` from byte `offset` on. Returns the number of bytes read, which is less than
    /// `buf` holds only at the end of the file.
    ///
    /// # Errors
    /// `Io`, `Corrupt`; `Unsupported` for encrypted contents; `Invalid` after the disk was closed.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.with(|file| match file {
            AnyFile::Reader(file) => file.read_at(offset, buf),
            AnyFile::Writer(file) => file.read_at(offset, buf),
        })
    }

    /// Writes all of `data` at byte `offset`.
    ///
    /// # Errors
    /// `NoSpace`, after which a part of the data may be written; `Io`; `ReadOnly` if the file is
    /// open for reading; `Invalid` after the disk was closed.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.with(|file| {
            let file = file.writer()?;
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
        })
    }

    /// Truncates the file, or extends it with a hole.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.with(|file| file.writer()?.set_len(size_bytes))
    }

    /// Makes the contents and the name of the file durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; `Invalid` after the disk was closed.
    pub fn sync(&self) -> Result<()> {
        self.with(|file| match file {
            AnyFile::Reader(_) => Ok(()),
            AnyFile::Writer(file) => file.sync_all(),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&AnyFile) -> Result<T>) -> Result<T> {
        let file = self.0.file.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || {
            let reason = "the file was closed together with its disk";
            Error::new(ErrorKind::Invalid, reason).in_file(&self.0.image)
        };
        act(file.as_ref().ok_or_else(closed)?)
    }
}
