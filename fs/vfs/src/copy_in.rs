//! From the host, or from a filesystem, into the filesystem.

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
use crate::{Follow, FsRead, FsWrite, InodeNumber, Result};

/// How to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyInOptions {
    /// What is kept. Without the mode, a new file gets its source's read, write and execute bits as
    /// far as `umask` lets them; without the owner, it belongs to `uid` and `gid`.
    pub preserve: Preserve,
    /// The owner of new files.
    pub uid: u32,
    /// The group of new files.
    pub gid: u32,
    /// What is taken away from the modes of new files.
    pub umask: u16,
    /// What becomes of a file that is in the way. A regular file that takes the place of another
    /// only replaces its contents: names, owner, mode and attributes stay as far as they are not
    /// kept from the source. Everything else is removed first. Directories are merged in any case,
    /// and never give way to a file.
    pub existing: Existing,
    /// What happens on an error.
    pub on_error: OnError,
    /// Whether a symlink that is the source itself is followed. Those below it never are.
    pub source_link: Follow,
    /// Files of the host, by device and inode, that are errors to copy: the image itself would
    /// grow for ever.
    pub refused: Vec<(u64, u64)>,
}

impl Default for CopyInOptions {
    fn default() -> Self {
        Self {
            preserve: Preserve::ALL,
            uid: 0,
            gid: 0,
            umask: 0o022,
            existing: Existing::Replace,
            on_error: OnError::GoOn,
            source_link: Follow::AllButLast,
            refused: Vec::new(),
        }
    }
}

/// Where a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyTo<'a> {
    /// It gets this name in this directory.
    Name(InodeNumber, &'a [u8]),
    /// What is in the source, a directory, goes into this one.
    Directory(InodeNumber),
}

/// What [`copy_within`] copies.
#[derive(Debug, Clone, Copy)]
pub struct CopyFrom<'a> {
    /// The filesystem that it is in.
    pub fs: &'a dyn FsRead,
    /// The file.
    pub inode: InodeNumber,
    /// Whether that filesystem is the one that is copied into: then a file that would be its own copy is
    /// refused, and so is a directory that would go into itself.
    pub same: bool,
}

/// Copies a file of a filesystem and everything below it into a filesystem, as [`copy_in`] does it with
/// what is on the host. Symlinks are not followed, and `source_link` and `refused` mean nothing here.
///
/// # Errors
/// As [`copy_in`]; `Invalid` for a directory that would go into itself.
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
/// Holes stay holes, and files with
/// several names in one copy stay so. `progress` is called for every file, and after every piece of
/// a large one (1 MiB), with the path within the copy. [`ControlFlow::Break`] ends the copy with
/// [`Cancelled`](crate::ErrorKind::Cancelled).
///
/// No symlink in the filesystem is followed below `to`: one that is in the way of a file is
/// replaced itself.
///
/// # Errors
/// With [`OnError::Stop`] the first one. With [`OnError::GoOn`] what keeps the copy from beginning,
/// and what may leave a file half copied ([`is_halfway`](crate::ErrorKind::is_halfway)); the rest is
/// in the summary.
pub fn copy_in(
    fs: &dyn FsWrite,
    source: &Path,
    to: CopyTo<'_>,
    options: &CopyInOptions,
    progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
) -> Result<Summary> {
    tree::Copy::new(fs, options, progress).run(source, to)
}
