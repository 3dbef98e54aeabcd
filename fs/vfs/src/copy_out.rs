//! Out of the filesystem, onto the host.

mod attributes;
mod contents;
mod host;
mod new_file;
mod tree;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;

pub(crate) use host::{failed, path_of};
pub use new_file::NewFile;

use crate::{Error, FsRead, InodeNumber, Result};

/// What a copy keeps besides contents. Holes, hard links between the files of one copy, and
/// symlinks are kept always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent attribute, as in cp --preserve"
)]
pub struct Preserve {
    /// Permissions with set-user-id and the like. Without it, files get their read, write and
    /// execute bits as far as the umask lets them.
    pub mode: bool,
    /// Owner and group, where the host lets us set them; see [`Summary::owners_ignored`].
    pub owner: bool,
    /// Last access and modification, to the nanosecond.
    pub times: bool,
    /// Extended attributes and ACLs, where the host lets us set them; see
    /// [`Summary::xattrs_ignored`].
    pub xattrs: bool,
}

impl Preserve {
    /// Everything, as `cp -a` does.
    pub const ALL: Self = Self {
        mode: true,
        owner: true,
        times: true,
        xattrs: true,
    };

    /// Nothing but contents, as `cp -r` does.
    pub const NOTHING: Self = Self {
        mode: false,
        owner: false,
        times: false,
        xattrs: false,
    };
}

/// What happens to a file of the host that is in the way. Directories are merged in any case, and
/// never give way to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the file that would take its place fails with `Exists`.
    Keep,
    /// It gives way when the new file is complete. A symlink is replaced itself, not what it leads to.
    Replace,
}

/// What happens when one file can't be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The copy ends there.
    Stop,
    /// The copy goes on with the next one, and the error is among [`Summary::errors`].
    GoOn,
}

/// How to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// What is kept.
    pub preserve: Preserve,
    /// What happens to what is in the way.
    pub existing: Existing,
    /// What happens on an error.
    pub on_error: OnError,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            preserve: Preserve::ALL,
            existing: Existing::Replace,
            on_error: OnError::GoOn,
        }
    }
}

/// How many errors a summary keeps. Past it they are counted: an image may have millions of broken
/// files, and nobody reads so many lines.
const ERRORS_KEPT: usize = 1000;

/// What a copy did, so far or in the end.
#[derive(Debug, Default)]
pub struct Summary {
    /// Regular files.
    pub files: u64,
    /// Directories, those that existed before among them.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Device nodes, FIFOs and sockets.
    pub specials: u64,
    /// Names that were added to a file that was already copied.
    pub hard_links: u64,
    /// Bytes of contents that were written; holes are not.
    pub bytes: u64,
    /// Files that belong to us now, because the host lets nobody but root give files away.
    pub owners_ignored: u64,
    /// Extended attributes that the host doesn't let us set, or has no room for.
    pub xattrs_ignored: u64,
    /// Device nodes that the host doesn't let us make.
    pub specials_ignored: u64,
    /// The first errors, each with the path that it is about.
    pub errors: Vec<Error>,
    /// How many errors there were in all.
    pub error_count: u64,
}

impl Summary {
    pub(crate) fn note(&mut self, error: Error) {
        self.error_count = self.error_count.saturating_add(1);
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(error);
        }
    }
}

/// Adds one to a count.
pub(crate) fn count(number: &mut u64) {
    *number = number.saturating_add(1);
}

/// Copies `source` and everything below it to `destination` on the host.
///
/// `destination` is the copy itself, not the directory that it goes into; its parent must exist.
/// `progress` is called for every file, and after every piece of a large one (1 MiB), with the path
/// within the copy. [`ControlFlow::Break`] ends the copy with [`Cancelled`](crate::ErrorKind::Cancelled).
///
/// Nothing outside of `destination` is touched, whatever the image says and whatever lies at the
/// destination already: everything is opened relative to its directory, no symlink on the host is
/// followed below `destination`, and names that lead elsewhere are errors. Sockets, device nodes
/// and FIFOs are made, never opened.
///
/// A regular file gets its name when it is complete ([`NewFile`]), so a copy that is killed leaves no part of one.
///
/// # Errors
/// With [`OnError::Stop`] the first one. With [`OnError::GoOn`] only what keeps the copy from
/// beginning; the rest is in the summary.
pub fn copy_out(
    fs: &dyn FsRead,
    source: InodeNumber,
    destination: &Path,
    options: &CopyOptions,
    progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
) -> Result<Summary> {
    tree::Copy::new(fs, destination, options, progress)?.run(source)
}
