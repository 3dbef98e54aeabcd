//! Copies from a filesystem to the host.

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

/// The attributes that a copy keeps besides contents. Holes, symlinks, and hard links between the
/// files of one copy are always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent attribute, as in cp --preserve"
)]
pub struct Preserve {
    /// Permissions with set-user-ID and similar bits. Without it, files get their read, write and
    /// execute bits, reduced by the umask.
    pub mode: bool,
    /// Owner and group, where the host permits setting them; see [`Summary::owners_ignored`].
    pub owner: bool,
    /// The times of last access and modification, to the nanosecond.
    pub times: bool,
    /// Extended attributes and ACLs, where the host permits setting them; see
    /// [`Summary::xattrs_ignored`].
    pub xattrs: bool,
}

impl Preserve {
    /// Every attribute, as `cp -a` does.
    pub const ALL: Self = Self {
        mode: true,
        owner: true,
        times: true,
        xattrs: true,
    };

    /// No attributes, only contents, as `cp -r` does.
    pub const NOTHING: Self = Self {
        mode: false,
        owner: false,
        times: false,
        xattrs: false,
    };
}

/// The treatment of an existing file at the destination. Directories are always merged, and never
/// replaced by a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The file is kept, and the copy of that path fails with `Exists`.
    Keep,
    /// The file is replaced when the new file is complete. A symlink itself is replaced, not its
    /// target.
    Replace,
}

/// The reaction to a file that can't be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The copy ends.
    Stop,
    /// The copy continues with the next file, and the error is added to [`Summary::errors`].
    Continue,
}

/// The options of a copy to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// The attributes that are kept.
    pub preserve: Preserve,
    /// The treatment of an existing file at the destination.
    pub existing: Existing,
    /// The reaction to an error.
    pub on_error: OnError,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            preserve: Preserve::ALL,
            existing: Existing::Replace,
            on_error: OnError::Continue,
        }
    }
}

/// The number of errors that a summary keeps. Further errors are only counted: an image may have
/// millions of broken files.
const ERRORS_KEPT: usize = 1000;

/// The counts of a copy, up to now or at its end.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of regular files.
    pub files: u64,
    /// The number of directories, including those that existed before.
    pub directories: u64,
    /// The number of symlinks.
    pub symlinks: u64,
    /// The number of device nodes, FIFOs and sockets.
    pub specials: u64,
    /// The number of names that were added to files that had been copied already.
    pub hard_links: u64,
    /// The number of bytes of contents that were written, without holes.
    pub bytes: u64,
    /// The number of files that belong to the calling user now, because the host lets only root
    /// change the owner.
    pub owners_ignored: u64,
    /// The number of extended attributes that the host does not permit, or has no space for.
    pub xattrs_ignored: u64,
    /// The number of device nodes that the host does not permit to create.
    pub specials_ignored: u64,
    /// The first errors, each with its path.
    pub errors: Vec<Error>,
    /// The total number of errors.
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

/// Increments a count.
pub(crate) fn count(number: &mut u64) {
    *number = number.saturating_add(1);
}

/// Copies `source` and everything below it to `destination` on the host.
///
/// `destination` is the path of the copy itself, not the directory that it is created in; its
/// parent must exist. `progress` is called for every file, and after every piece of a large one (1
/// MiB), with the path within the copy. [`ControlFlow::Break`] ends the copy with
/// [`Cancelled`](crate::ErrorKind::Cancelled).
///
/// Nothing outside of `destination` is changed, whatever the image contains and whatever exists at
/// the destination: every file is opened relative to its directory, no symlink on the host is
/// followed below `destination`, and names that lead elsewhere are errors. Sockets, device nodes
/// and FIFOs are created, but never opened.
///
/// A regular file gets its name when it is complete ([`NewFile`]), so a copy that is killed leaves
/// no partial file.
///
/// # Errors
/// With [`OnError::Stop`] the first error. With [`OnError::Continue`] only the errors that prevent
/// the start of the copy; all others are in the summary.
pub fn copy_out(
    fs: &dyn FsRead,
    source: InodeNumber,
    destination: &Path,
    options: &CopyOptions,
    progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
) -> Result<Summary> {
    tree::Copy::new(fs, destination, options, progress)?.run(source)
}
