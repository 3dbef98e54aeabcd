//! The destination: directories of the host, by descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::Existing;
use crate::{Error, ErrorKind, Result};

/// How many directories are kept open on the way down. Deeper ones are opened again on the way up:
/// a process may have no more than 1024 files open by default.
const OPEN_DIRS: usize = 64;

/// The directories from the destination's parent down to the one that is being filled.
#[derive(Debug)]
pub(super) struct Dirs {
    /// The destination's parent: always open.
    base: OwnedFd,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    name: OsString,
    fd: Option<OwnedFd>,
}

/// Opens a directory for what is made in it, and never through a symlink.
const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Dirs {
    /// Begins in the directory that `destination` is in. Returns the name that it has there.
    pub(super) fn open(destination: &Path) -> Result<(Self, OsString)> {
        let name = destination
            .file_name()
            .map(OsStr::to_owned)
            .ok_or_else(|| {
                let reason = format!("{} has no name to copy to", destination.display());
                Error::new(ErrorKind::Invalid, reason)
            })?;
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Up to here the path is the user's own word, symlinks and all.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| {
            let what = format!("opening {}", parent.display());
            failed(&what, errno)
        })?;
        let levels = Vec::new();
        Ok((Self { base, levels }, name))
    }

    /// How many directories lie between the base and the place where things are made now.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The directory where things are made now.
    ///
    /// # Errors
    /// When it could not be opened again on the way up: it was moved or removed meanwhile.
    pub(super) fn here(&self) -> Result<BorrowedFd<'_>> {
        let fd = match self.levels.last() {
            Some(level) => level.fd.as_ref(),
            None => Some(&self.base),
        };
        let moved = || {
            Error::new(
                ErrorKind::Io,
                "somebody else moved the directory on the host",
            )
        };
        fd.map(OwnedFd::as_fd).ok_or_else(moved)
    }

    /// Goes into a directory that is there.
    pub(super) fn enter(&mut self, name: &OsStr) -> Result<()> {
        let fd = open_dir(self.here()?, name)?;
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

    /// Leaves the innermost directory. Returns it, to be given its attributes.
    pub(super) fn leave(&mut self) -> Result<Option<OwnedFd>> {
        let left = self.levels.pop();
        self.reopen()?;
        Ok(left.and_then(|level| level.fd))
    }

    /// Opens the innermost directory again, if it was closed on the way down.
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

    /// A file that was made earlier, by its path below the base.
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
        // A symlink, which O_NOFOLLOW with O_DIRECTORY reports in either way.
        Errno::LOOP | Errno::NOTDIR => Error::new(
            ErrorKind::NotADirectory,
            "something else than a directory is in the way",
        ),
        errno => failed("opening the directory", errno),
    })
}

/// Makes something in `dir` that must not be there yet; what is in the way stays or goes.
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

/// The path by which the kernel leads to an open file, be it a symlink itself.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> OsString {
    use std::os::fd::AsRawFd;
    OsString::from_vec(format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes())
}

/// An error of the host.
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
    fn from(error: std::io::Error) -> Self {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        failed("an operation", errno)
    }
}
