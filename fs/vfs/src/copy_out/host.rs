//! The destination: directories of the host, accessed by descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::Existing;
use crate::{Error, ErrorKind, Result};

/// The number of directories that are kept open on the way down. Deeper ones are reopened on the
/// way up: by default a process can have at most 1024 open files.
const OPEN_DIRS: usize = 64;

/// The directories from the destination's parent down to the one that is being filled.
#[derive(Debug)]
pub(super) struct Dirs {
    /// The destination's parent, which is always open.
    base: OwnedFd,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    name: OsString,
    fd: Option<OwnedFd>,
}

/// The flags to open a directory in which files are created, without following a symlink.
const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Dirs {
    /// Opens the parent directory of `destination`. Returns the name of the destination in it.
    pub(super) fn open(destination: &Path) -> Result<(Self, OsString)> {
        let name = destination
            .file_name()
            .map(OsStr::to_owned)
            .ok_or_else(|| {
                let reason = format!(
                    "cannot copy to {}: the path does not end in a name",
                    destination.display()
                );
                Error::new(ErrorKind::Invalid, reason)
            })?;
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Up to here the path is the user's own, and its symlinks are followed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| {
            let what = format!("opening {}", parent.display());
            failed(&what, errno)
        })?;
        let levels = Vec::new();
        Ok((Self { base, levels }, name))
    }

    /// Returns the number of directories between the base and the current directory.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the current directory, in which files are created.
    ///
    /// # Errors
    /// If it could not be reopened on the way up, because another process has moved or removed it.
    pub(super) fn current(&self) -> Result<BorrowedFd<'_>> {
        let fd = match self.levels.last() {
            Some(level) => level.fd.as_ref(),
            None => Some(&self.base),
        };
        let moved = || {
            Error::new(
                ErrorKind::Io,
                "another process moved the directory on the host",
            )
        };
        fd.map(OwnedFd::as_fd).ok_or_else(moved)
    }

    /// Enters an existing directory.
    pub(super) fn enter(&mut self, name: &OsStr) -> Result<()> {
        let fd = open_dir(self.current()?, name)?;
        let open = self
            .levels
            .iter()
            .filter(|level| level.fd.is_some())
            .count();
        if open >= OPEN_DIRS
            && let Some(outermost) = self.levels.iter_mut().find(|level| level.fd.is_some())
        {
            outermost.fd = None;
        }
        self.levels.push(Level {
            name: name.to_owned(),
            fd: Some(fd),
        });
        Ok(())
    }

    /// Leaves the innermost directory, and returns it so that its attributes can be set.
    pub(super) fn leave_innermost(&mut self) -> Result<Option<OwnedFd>> {
        let left = self.levels.pop();
        self.reopen()?;
        Ok(left.and_then(|level| level.fd))
    }

    /// Reopens the innermost directory, if it was closed on the way down.
    fn reopen(&mut self) -> Result<()> {
        let closed = self
            .levels
            .iter()
            .rev()
            .take_while(|level| level.fd.is_none());
        let from = self.levels.len().saturating_sub(closed.count());
        let Some(last) = self.levels.len().checked_sub(1) else {
            return Ok(());
        };
        if from > last {
            return Ok(());
        }
        let (open, closed) = self.levels.split_at_mut(from);
        let start = open.last().and_then(|level| level.fd.as_ref());
        let mut at = start.unwrap_or(&self.base).try_clone()?;
        for level in &mut *closed {
            at = open_dir(at.as_fd(), &level.name)?;
        }
        if let Some(innermost) = closed.last_mut() {
            innermost.fd = Some(at);
        }
        Ok(())
    }

    /// Opens a file that was created earlier, by its path below the base.
    pub(super) fn find(&self, path: &[u8]) -> Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = OsStr::from_bytes(path);
        rustix::fs::openat2(&self.base, path, flags, Mode::empty(), within)
            .map_err(|errno| failed("finding the first name of a hard link", errno))
    }
}

fn open_dir(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIR, Mode::empty()).map_err(|errno| match errno {
        // A symlink: the combination of O_NOFOLLOW and O_DIRECTORY can report either error.
        Errno::LOOP | Errno::NOTDIR => Error::new(
            ErrorKind::NotADirectory,
            "not a directory, at the destination of a directory",
        ),
        errno => failed("opening the directory", errno),
    })
}

/// Creates a file in `dir` where no file exists; an existing one is kept or replaced.
pub(super) fn make<T>(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    existing: Existing,
    mut make: impl FnMut() -> std::result::Result<T, Errno>,
) -> std::result::Result<T, Errno> {
    match make() {
        Err(Errno::EXIST) if existing == Existing::Replace => {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            make()
        }
        made => made,
    }
}

/// Returns a path by which the kernel reaches an open file, even a symlink.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> OsString {
    use std::os::fd::AsRawFd;
    OsString::from_vec(format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes())
}

/// Returns the error for a failed operation on the host.
pub(crate) fn failed(what: &str, errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::Exists,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::NAMETOOLONG => ErrorKind::NameTooLong,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::NoSpace,
        Errno::ACCESS | Errno::PERM => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{what} on the host failed")).with_source(std::io::Error::from(errno))
}

impl From<std::io::Error> for Error {
    /// Converts an error of the host, or of a reader that says itself what is wrong.
    fn from(error: std::io::Error) -> Self {
        if let Some(errno) = Errno::from_io_error(&error) {
            return failed("an operation", errno);
        }
        let kind = match error.kind() {
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                ErrorKind::Corrupt
            }
            std::io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_reader_says_itself_what_is_wrong() {
        let damaged = io::Error::new(io::ErrorKind::InvalidData, "the archive is truncated");
        let damaged = Error::from(damaged);
        assert_eq!(damaged.kind(), ErrorKind::Corrupt);
        assert_eq!(damaged.to_string(), "the archive is truncated");
        let full = Error::from(io::Error::from(Errno::NOSPC));
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert!(full.to_string().contains("on the host failed"), "{full}");
    }
}
