//! An open filesystem or tree of filesystems.

use diskfs::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// An open filesystem, or the tree of filesystems of an operating system. Clones are cheap and
/// share one filesystem.
#[derive(Debug, Clone)]
pub enum Tree {
    /// A tree on a disk that is open for reading.
    Reader(Filesystem),
    /// A tree on a disk that is open for writing.
    Writer(WritableFilesystem),
}

impl Tree {
    /// Returns the tree for reading. Changes are visible in it at once.
    pub fn reader(&self) -> &Filesystem {
        match self {
            Self::Reader(tree) => tree,
            Self::Writer(tree) => tree.reader(),
        }
    }

    /// Returns the tree for writing.
    ///
    /// # Errors
    /// `ReadOnly` if the disk is open for reading.
    pub fn writer(&self) -> Result<&WritableFilesystem> {
        match self {
            Self::Writer(tree) => Ok(tree),
            Self::Reader(tree) => Err(read_only().in_file(tree.image_path())),
        }
    }

    /// Makes all changes so far durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Self::Reader(_) => Ok(()),
            Self::Writer(tree) => tree.sync(),
        }
    }

    /// Ends writing. After an error, changes that are not durable are discarded.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Self::Reader(_) => Ok(()),
            Self::Writer(tree) => tree.close().inspect_err(|_| {
                // The error of closing is the one that the caller can act on.
                let _ = tree.abandon();
            }),
        }
    }
}

/// Returns the error of a change on a disk that is open for reading.
pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the disk is open read-only")
        .with_hint("open it for writing, with an overlay or as a dry run")
}
