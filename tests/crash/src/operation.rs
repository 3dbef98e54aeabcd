//! Operations on a filesystem as data, so that they can be printed, repeated and left out.

use std::fmt;
use std::ops::Deref;

use diskfs_vfs::{
    Device, ErrorKind, Fallocate, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, Result,
    SetMetadata, SetXattr, SyncFile,
};

use crate::pattern::pattern;

/// A file, identified by the number of the operation that created it, plus one. The root is 0, and
/// files that existed before the run count from [`FOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub usize);

const FOUND: usize = 1_000_000;

impl FileId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    /// Returns the file that an operation creates.
    pub const fn made_by(operation: usize) -> Self {
        Self(operation + 1)
    }

    /// Returns a file that existed before the run, by its number.
    pub const fn found(number: usize) -> Self {
        Self(FOUND + number)
    }

    /// Returns true if an operation created the file.
    pub const fn is_made(self) -> bool {
        self.0 > 0 && self.0 < FOUND
    }
}

/// Bytes that are printed as text and abbreviated.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(24)];
        let rest = if shown.len() < self.0.len() {
            "..."
        } else {
            ""
        };
        write!(f, "\"{}{rest}\"({})", shown.escape_ascii(), self.0.len())
    }
}

/// A [`NewKind`] that owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedNewKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symlink with a target of length `len`.
    Symlink {
        /// The length of the target.
        len: usize,
    },
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
}

/// A call of a method of [`FsWrite`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of FsWrite's methods"
)]
pub enum Operation {
    /// A call of [`FsWrite::create`].
    Create {
        dir: FileId,
        name: Bytes,
        kind: OwnedNewKind,
        attributes: NewAttributes,
    },
    /// A call of [`FsWrite::create_unnamed`].
    CreateUnnamed {
        dir: FileId,
        attributes: NewAttributes,
    },
    /// A call of [`FsWrite::link`].
    Link {
        file: FileId,
        dir: FileId,
        name: Bytes,
    },
    /// A call of [`FsWrite::unlink`].
    Unlink { dir: FileId, name: Bytes },
    /// A call of [`FsWrite::rmdir`].
    Rmdir { dir: FileId, name: Bytes },
    /// A call of [`FsWrite::rename`].
    Rename {
        dir: FileId,
        name: Bytes,
        to_dir: FileId,
        to_name: Bytes,
        mode: RenameMode,
    },
    /// A call of [`FsWrite::write_at`] with the operation's own [`pattern`].
    Write {
        file: FileId,
        offset: u64,
        len: usize,
    },
    /// A call of [`FsWrite::set_len`].
    SetLen { file: FileId, size_bytes: u64 },
    /// A call of [`FsWrite::fallocate`].
    Fallocate {
        file: FileId,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    },
    /// A call of [`FsWrite::set_metadata`].
    SetMetadata { file: FileId, change: SetMetadata },
    /// A call of [`FsWrite::set_xattr`].
    SetXattr {
        file: FileId,
        name: Bytes,
        value: Bytes,
        how: SetXattr,
    },
    /// A call of [`FsWrite::remove_xattr`].
    RemoveXattr { file: FileId, name: Bytes },
    /// A call of [`FsWrite::hold`].
    Hold { file: FileId },
    /// A call of [`FsWrite::release`].
    Release { file: FileId },
    /// A call of [`FsWrite::sync_file`].
    SyncFile { file: FileId, what: SyncFile },
    /// A call of [`FsWrite::sync`].
    Sync,
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The operation succeeded.
    Done,
    /// The operation created this file.
    Made(InodeNumber),
    /// The operation wrote this number of bytes.
    Wrote(usize),
    /// The operation failed.
    Failed(ErrorKind),
}

impl Operation {
    /// Returns the files that are arguments of the operation.
    pub fn files(&self) -> Vec<FileId> {
        match self {
            Self::Create { dir, .. }
            | Self::CreateUnnamed { dir, .. }
            | Self::Unlink { dir, .. }
            | Self::Rmdir { dir, .. } => vec![*dir],
            Self::Link { file, dir, .. } => vec![*file, *dir],
            Self::Rename { dir, to_dir, .. } => vec![*dir, *to_dir],
            Self::Write { file, .. }
            | Self::SetLen { file, .. }
            | Self::Fallocate { file, .. }
            | Self::SetMetadata { file, .. }
            | Self::SetXattr { file, .. }
            | Self::RemoveXattr { file, .. }
            | Self::Hold { file }
            | Self::Release { file }
            | Self::SyncFile { file, .. } => vec![*file],
            Self::Sync => Vec::new(),
        }
    }

    /// Returns the names that are arguments of the operation, with their directories.
    pub fn names(&self) -> Vec<(FileId, &[u8])> {
        match self {
            Self::Create { dir, name, .. }
            | Self::Link { dir, name, .. }
            | Self::Unlink { dir, name }
            | Self::Rmdir { dir, name } => vec![(*dir, name)],
            Self::Rename {
                dir,
                name,
                to_dir,
                to_name,
                ..
            } => vec![(*dir, name), (*to_dir, to_name)],
            _ => Vec::new(),
        }
    }

    /// Returns the name that becomes a whiteout, if the operation leaves one.
    pub fn whiteout(&self) -> Option<(FileId, &[u8])> {
        match self {
            Self::Rename {
                dir,
                name,
                mode: RenameMode::Whiteout | RenameMode::NoReplaceWhiteout,
                ..
            } => Some((*dir, name)),
            _ => None,
        }
    }

    /// Returns the regular file whose contents the operation changes.
    pub const fn changes_contents_of(&self) -> Option<FileId> {
        match self {
            Self::Write { file, .. } | Self::SetLen { file, .. } | Self::Fallocate { file, .. } => {
                Some(*file)
            }
            _ => None,
        }
    }

    /// Runs the operation. `inode` returns the numbers of the files that [`files`](Self::files)
    /// returns.
    pub fn perform(
        &self,
        number: usize,
        fs: &dyn FsWrite,
        inode: impl Fn(FileId) -> InodeNumber,
    ) -> Outcome {
        match self.call(number, fs, inode) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error.kind()),
        }
    }

    /// Runs the operation as [`perform`](Self::perform) does, and returns the whole error.
    ///
    /// # Errors
    /// The errors of the filesystem.
    pub fn call(
        &self,
        number: usize,
        fs: &dyn FsWrite,
        inode: impl Fn(FileId) -> InodeNumber,
    ) -> Result<Outcome> {
        match self {
            Self::Create {
                dir,
                name,
                kind,
                attributes,
            } => {
                let target = kind.target(number);
                let made = fs.create(inode(*dir), name, kind.borrow(&target), attributes)?;
                return Ok(Outcome::Made(made));
            }
            Self::CreateUnnamed { dir, attributes } => {
                return Ok(Outcome::Made(fs.create_unnamed(inode(*dir), attributes)?));
            }
            Self::Write { file, offset, len } => {
                let data = pattern(number, *offset, *len);
                return Ok(Outcome::Wrote(fs.write_at(inode(*file), *offset, &data)?));
            }
            Self::Link { file, dir, name } => fs.link(inode(*file), inode(*dir), name)?,
            Self::Unlink { dir, name } => fs.unlink(inode(*dir), name)?,
            Self::Rmdir { dir, name } => fs.rmdir(inode(*dir), name)?,
            Self::Rename {
                dir,
                name,
                to_dir,
                to_name,
                mode,
            } => fs.rename(inode(*dir), name, inode(*to_dir), to_name, *mode)?,
            Self::SetLen { file, size_bytes } => fs.set_len(inode(*file), *size_bytes)?,
            Self::Fallocate {
                file,
                offset,
                len_bytes,
                what,
            } => fs.fallocate(inode(*file), *offset, *len_bytes, *what)?,
            Self::SetMetadata { file, change } => fs.set_metadata(inode(*file), change)?,
            Self::SetXattr {
                file,
                name,
                value,
                how,
            } => fs.set_xattr(inode(*file), name, value, *how)?,
            Self::RemoveXattr { file, name } => fs.remove_xattr(inode(*file), name)?,
            Self::Hold { file } => fs.hold(inode(*file)),
            Self::Release { file } => fs.release(inode(*file))?,
            Self::SyncFile { file, what } => fs.sync_file(inode(*file), *what)?,
            Self::Sync => fs.sync()?,
        }
        Ok(Outcome::Done)
    }
}

impl OwnedNewKind {
    fn target(&self, number: usize) -> Vec<u8> {
        match self {
            Self::Symlink { len } => pattern(number, 0, *len),
            _ => Vec::new(),
        }
    }

    fn borrow<'a>(&self, target: &'a [u8]) -> NewKind<'a> {
        match self {
            Self::Regular => NewKind::Regular,
            Self::Directory => NewKind::Directory,
            Self::Symlink { .. } => NewKind::Symlink(target),
            Self::CharacterDevice(device) => NewKind::CharacterDevice(*device),
            Self::BlockDevice(device) => NewKind::BlockDevice(*device),
            Self::Fifo => NewKind::Fifo,
            Self::Socket => NewKind::Socket,
        }
    }
}
