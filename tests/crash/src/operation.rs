//! What is done to a filesystem, as data: it can be told, repeated, and left out.

use std::fmt;
use std::ops::Deref;

use diskfs_vfs::{
    Device, ErrorKind, Fallocate, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, Result,
    SetMetadata, SetXattr, SyncFile,
};

use crate::pattern::pattern;

/// A file, by the number of the operation that made it, plus one; the root is 0, and those that were
/// there before count from [`FOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub usize);

const FOUND: usize = 1_000_000;

impl FileId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    /// What the operation of that number makes.
    pub const fn made_by(operation: usize) -> Self {
        Self(operation + 1)
    }

    /// The file of that number among those that were there before.
    pub const fn found(number: usize) -> Self {
        Self(FOUND + number)
    }

    /// Whether an operation made it.
    pub const fn is_made(self) -> bool {
        self.0 > 0 && self.0 < FOUND
    }
}

/// Bytes that are shown as text, and shortened.
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

/// [`NewKind`] that owns what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symlink with a target of so many bytes.
    Symlink {
        /// The target's length.
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

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of FsWrite's methods"
)]
pub enum Operation {
    /// [`FsWrite::create`].
    Create {
        dir: FileId,
        name: Bytes,
        kind: Kind,
        attributes: NewAttributes,
    },
    /// [`FsWrite::create_unnamed`].
    CreateUnnamed {
        dir: FileId,
        attributes: NewAttributes,
    },
    /// [`FsWrite::link`].
    Link {
        file: FileId,
        dir: FileId,
        name: Bytes,
    },
    /// [`FsWrite::unlink`].
    Unlink { dir: FileId, name: Bytes },
    /// [`FsWrite::rmdir`].
    Rmdir { dir: FileId, name: Bytes },
    /// [`FsWrite::rename`].
    Rename {
        dir: FileId,
        name: Bytes,
        to_dir: FileId,
        to_name: Bytes,
        mode: RenameMode,
    },
    /// [`FsWrite::write_at`], of the operation's own [`pattern`].
    Write {
        file: FileId,
        offset: u64,
        len: usize,
    },
    /// [`FsWrite::set_len`].
    SetLen { file: FileId, size_bytes: u64 },
    /// [`FsWrite::fallocate`].
    Fallocate {
        file: FileId,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    },
    /// [`FsWrite::set_metadata`].
    SetMetadata { file: FileId, change: SetMetadata },
    /// [`FsWrite::set_xattr`].
    SetXattr {
        file: FileId,
        name: Bytes,
        value: Bytes,
        how: SetXattr,
    },
    /// [`FsWrite::remove_xattr`].
    RemoveXattr { file: FileId, name: Bytes },
    /// [`FsWrite::hold`].
    Hold { file: FileId },
    /// [`FsWrite::release`].
    Release { file: FileId },
    /// [`FsWrite::sync_file`].
    SyncFile { file: FileId, what: SyncFile },
    /// [`FsWrite::sync`].
    Sync,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It made this file.
    Made(InodeNumber),
    /// So much was written.
    Wrote(usize),
    /// It failed.
    Failed(ErrorKind),
}

impl Operation {
    /// The files that it names.
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

    /// The names that it is about, each in its directory.
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

    /// The name that a whiteout takes, if it leaves one.
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

    /// The regular file whose contents it changes.
    pub const fn changes_contents_of(&self) -> Option<FileId> {
        match self {
            Self::Write { file, .. } | Self::SetLen { file, .. } | Self::Fallocate { file, .. } => {
                Some(*file)
            }
            _ => None,
        }
    }

    /// Does it. `inode` tells the number of a file that [`files`](Self::files) names.
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

    /// As [`perform`](Self::perform), with the whole error.
    ///
    /// # Errors
    /// Whatever the filesystem answers.
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

impl Kind {
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
