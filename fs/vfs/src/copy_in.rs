//! Copies from the host, or from a filesystem, into a filesystem.

mod attributes;
mod contents;
mod host;
mod source;
mod tree;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;

use crate::copy_out::{Existing, OnError, Preserve, Summary};
use crate::{Follow, FsRead, FsWrite, InodeNumber, Result, Timestamp};

/// The options of a copy into a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyInOptions {
    /// The attributes that are kept. Without the mode, a new file gets the read, write and execute
    /// bits of its source, reduced by `umask`. Without the owner, it belongs to `uid` and `gid`.
    pub preserve: Preserve,
    /// The owner of new files.
    pub uid: u32,
    /// The group of new files.
    pub gid: u32,
    /// The permission bits that are removed from the modes of new files.
    pub umask: u16,
    /// The treatment of an existing file at the destination. If a regular file replaces another,
    /// only the contents are replaced: names stay, and so do owner, mode and attributes unless they
    /// are kept from the source. In all other cases the existing file is removed first. Directories
    /// are always merged, and never replaced by a file.
    pub existing: Existing,
    /// The reaction to an error.
    pub on_error: OnError,
    /// The treatment of a symlink that is the source itself. Symlinks below the source are never
    /// followed.
    pub source_link: Follow,
    /// Files of the host, by device and inode, that must not be copied: copying the image into
    /// itself would never end.
    pub refused: Vec<(u64, u64)>,
    /// The newest time that a copy gets if times are kept: newer times become this one, and each
    /// access time becomes the modification time, because reading a tree changes its access times.
    /// `None` keeps all times.
    pub newest_time: Option<Timestamp>,
}

impl Default for CopyInOptions {
    fn default() -> Self {
        Self {
            preserve: Preserve::ALL,
            uid: 0,
            gid: 0,
            umask: 0o022,
            existing: Existing::Replace,
            on_error: OnError::Continue,
            source_link: Follow::AllButLast,
            refused: Vec::new(),
            newest_time: None,
        }
    }
}

/// The destination of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyTo<'a> {
    /// This name in this directory.
    Name(InodeNumber, &'a [u8]),
    /// This directory, which receives the entries of the source, also a directory.
    Directory(InodeNumber),
}

/// The source of [`copy_within`].
#[derive(Debug, Clone, Copy)]
pub struct CopyFrom<'a> {
    /// The filesystem of the file.
    pub fs: &'a dyn FsRead,
    /// The file or directory that is copied.
    pub inode: InodeNumber,
    /// True if source and destination are the same filesystem. Then copying a file onto itself, or
    /// a directory into itself, is refused.
    pub same: bool,
}

/// Copies a file of a filesystem and everything below it into a filesystem, like [`copy_in`] from
/// the host. Symlinks are not followed; `source_link` and `refused` are ignored.
///
/// # Errors
/// As [`copy_in`]; `Invalid` for copying a directory into itself.
pub fn copy_within(
    fs: &dyn FsWrite,
    source: CopyFrom<'_>,
    to: CopyTo<'_>,
    options: &CopyInOptions,
    progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
) -> Result<Summary> {
    tree::Copy::new(fs, options, progress).run_from(source, to)
}

/// Copies `source` on the host and everything below it into the filesystem.
///
/// Holes and hard links between the copied files are preserved. `progress` is called for every
/// file, and after every piece of a large one (1 MiB), with the path within the copy.
/// [`ControlFlow::Break`] ends the copy with [`Cancelled`](crate::ErrorKind::Cancelled).
///
/// Symlinks in the filesystem below `to` are not followed: a symlink at the path of a file is
/// replaced.
///
/// # Errors
/// With [`OnError::Stop`] the first error. With [`OnError::Continue`] the errors that prevent the
/// start of the copy, and those that may leave a file half copied
/// ([`is_halfway`](crate::ErrorKind::is_halfway)); all others are in the summary.
pub fn copy_in(
    fs: &dyn FsWrite,
    source: &Path,
    to: CopyTo<'_>,
    options: &CopyInOptions,
    progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
) -> Result<Summary> {
    tree::Copy::new(fs, options, progress).run(source, to)
}
