//! A file of the host that gets its name when it is complete.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Existing;
use super::host::path_of;

/// The number of temporary names that are tried.
const ATTEMPTS: usize = 100;

/// A new file without a name (`O_TMPFILE`), or with a temporary name if the host's filesystem does
/// not support files without a name. If the process is killed, a file without a name vanishes;
/// dropping the value removes a file with a temporary name.
#[derive(Debug)]
pub struct NewFile<D: AsFd> {
    dir: D,
    name: OsString,
    existing: Existing,
    file: OwnedFd,
    temporary: Option<OsString>,
}

impl<D: AsFd> NewFile<D> {
    /// Creates a file that will be called `name` in `dir`, with these permissions reduced by the
    /// umask. [`finish`](Self::finish) gives it the name.
    ///
    /// # Errors
    /// The errors of openat(2); `EXIST` and `ISDIR` for an existing file that must not be replaced.
    pub fn create(
        dir: D,
        name: &OsStr,
        existing: Existing,
        permissions: u32,
    ) -> std::result::Result<Self, Errno> {
        check_free(dir.as_fd(), name, existing)?;
        let mode = Mode::from_raw_mode(permissions);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, temporary) = match rustix::fs::openat(&dir, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => (file, None),
            // The answers of a filesystem or an old kernel that does not support files without a
            // name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                let (file, name) =
                    with_temporary_name(|name| rustix::fs::openat(&dir, name, flags, mode))?;
                (file, Some(name))
            }
            Err(errno) => return Err(errno),
        };
        Ok(Self {
            dir,
            name: name.to_owned(),
            existing,
            file,
            temporary,
        })
    }

    /// Gives the file its name, and replaces an existing file if that is allowed.
    ///
    /// # Errors
    /// The errors of linkat(2) and renameat(2); `EXIST` if an existing file must be kept.
    pub fn finish(mut self) -> std::result::Result<(), Errno> {
        if self.temporary.is_none() {
            match self.link(&self.name) {
                Err(Errno::EXIST) if self.existing == Existing::Replace => {
                    let ((), name) = with_temporary_name(|name| self.link(name))?;
                    self.temporary = Some(name);
                }
                linked => return linked,
            }
        }
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        match self.existing {
            Existing::Replace => {
                rustix::fs::renameat(&self.dir, temporary, &self.dir, &self.name)?;
            }
            Existing::Keep => self.rename_to_free(temporary)?,
        }
        self.temporary = None;
        Ok(())
    }

    fn link(&self, name: &OsStr) -> std::result::Result<(), Errno> {
        let from = path_of(self.file.as_fd());
        rustix::fs::linkat(CWD, &from, &self.dir, name, AtFlags::SYMLINK_FOLLOW)
    }

    fn rename_to_free(&self, temporary: &OsStr) -> std::result::Result<(), Errno> {
        let (dir, name) = (&self.dir, &self.name);
        match rustix::fs::renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
            // Network filesystems mostly don't support the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                check_free(dir.as_fd(), name, Existing::Keep)?;
                rustix::fs::renameat(dir, temporary, dir, name)
            }
            renamed => renamed,
        }
    }
}

impl<D: AsFd> AsFd for NewFile<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<D: AsFd> Drop for NewFile<D> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A destructor can't report an error.
            let _ = rustix::fs::unlinkat(&self.dir, temporary, AtFlags::empty());
        }
    }
}

/// Fails if an existing file must not be replaced, before contents are copied in vain.
fn check_free(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    existing: Existing,
) -> std::result::Result<(), Errno> {
    let Ok(there) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(());
    };
    let is_dir = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
    match existing {
        Existing::Keep => Err(Errno::EXIST),
        Existing::Replace if is_dir => Err(Errno::ISDIR),
        Existing::Replace => Ok(()),
    }
}

/// Calls `make` with temporary names until one is free.
fn with_temporary_name<T>(
    mut make: impl FnMut(&OsStr) -> std::result::Result<T, Errno>,
) -> std::result::Result<(T, OsString), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".diskfs-{}-{number}", std::process::id()));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    fn names(dir: &std::path::Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn the_name_comes_last_and_nothing_is_left_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let new = || NewFile::create(open(), "a".as_ref(), Existing::Replace, 0o644).unwrap();
        drop(new());
        assert_eq!(names(dir.path()), 0);
        for text in ["one", "two"] {
            let file = new();
            let mut out = File::from(file.as_fd().try_clone_to_owned().unwrap());
            out.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), text);
        }
        assert_eq!(names(dir.path()), 1);
        let kept = NewFile::create(open(), "a".as_ref(), Existing::Keep, 0o644);
        assert_eq!(kept.unwrap_err(), Errno::EXIST);
        fs::create_dir(dir.path().join("d")).unwrap();
        let dir = NewFile::create(open(), "d".as_ref(), Existing::Replace, 0o644);
        assert_eq!(dir.unwrap_err(), Errno::ISDIR);
    }
}
