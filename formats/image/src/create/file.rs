//! The file of a new image, which gets its name when it is complete.

use std::fs::Permissions;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use diskfs_block::{BlockWrite, Error, ErrorKind, File, Result, check_cancelled};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, linkat};
use rustix::io::Errno;
use tempfile::TempPath;

use super::{Existing, Preallocation};
use crate::lock::lock_for_writing;
use crate::oci;

/// The number of zeroes to write at once for full preallocation.
const FILL_BYTES: u64 = 4 << 20;

/// The start of temporary names.
const PREFIX: &str = ".diskfs-";
/// The permissions of a new file, which the umask reduces.
const PERMISSIONS: u32 = 0o666;

/// A file without a name (`O_TMPFILE`), or with a temporary name if the host's filesystem has no
/// files without a name. If the process is killed, a file without a name vanishes.
#[derive(Debug)]
pub(super) struct NewFile {
    file: std::fs::File,
    /// The path by which the file can be opened: in /proc, or the temporary name.
    open_path: PathBuf,
    /// The temporary name, which is removed with this value.
    temporary: Option<TempPath>,
    path: PathBuf,
    existing: Existing,
}

impl NewFile {
    /// Creates a file for `path`, if the destination is allowed.
    pub(super) fn begin(path: &Path, existing: Existing) -> Result<Self> {
        oci::refuse_new(path)?;
        check_place(path, existing)?;
        let unnamed = without_name(directory_of(path))?;
        Self::of(unnamed, path, existing)
    }

    /// Takes a file without a name, or creates one with a temporary name.
    fn of(
        unnamed: Option<(std::fs::File, PathBuf)>,
        path: &Path,
        existing: Existing,
    ) -> Result<Self> {
        let (file, open_path, temporary) = if let Some((file, open_path)) = unnamed {
            (file, open_path, None)
        } else {
            let (file, temporary) = with_temporary_name(directory_of(path))?.into_parts();
            (file, temporary.to_path_buf(), Some(temporary))
        };
        Ok(Self {
            file,
            open_path,
            temporary,
            path: path.to_owned(),
            existing,
        })
    }

    /// Returns the path that the file will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path by which this process can open the file.
    pub(super) fn open_path(&self) -> &Path {
        &self.open_path
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &std::fs::File {
        &self.file
    }

    /// Sets the file's length.
    pub(super) fn set_len(&self, len_bytes: u64) -> Result<()> {
        Ok(self.file.set_len(len_bytes)?)
    }

    /// Returns the file as a device of its current length.
    pub(super) fn device(&self) -> Result<File> {
        let fd = self.file.try_clone()?;
        File::from_fd(fd.into(), &self.path)
    }

    /// Has the host allocate space for a range, as far as `preallocation` requests it.
    pub(super) fn preallocate(
        &self,
        offset: u64,
        len_bytes: u64,
        preallocation: Preallocation,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        match preallocation {
            Preallocation::Off | Preallocation::Metadata => Ok(()),
            Preallocation::Falloc => self.reserve(offset, len_bytes),
            Preallocation::Full => self.fill(offset, len_bytes, progress),
        }
    }

    fn reserve(&self, offset: u64, len_bytes: u64) -> Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, len_bytes) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let reason = "preallocation=falloc is not supported by the host's filesystem";
                Err(Error::unsupported(reason).with_hint("use preallocation=full to write zeroes"))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Writes zeroes. Asking the host for zeroes would only reserve space.
    fn fill(
        &self,
        offset: u64,
        len_bytes: u64,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let device = self.device()?;
        let zeroes = vec![0; usize::try_from(FILL_BYTES.min(len_bytes)).unwrap_or(0)];
        let mut done = 0;
        while done < len_bytes {
            let len = FILL_BYTES.min(len_bytes.saturating_sub(done));
            let piece = zeroes.get(..usize::try_from(len).unwrap_or(0));
            device.write_at(offset.saturating_add(done), piece.unwrap_or_default())?;
            done = done.saturating_add(len);
            check_cancelled(progress(len))?;
        }
        Ok(())
    }

    /// Makes the file durable and gives it its name, also durably.
    pub(super) fn finish(mut self) -> Result<()> {
        self.file.sync_all()?;
        // Check again, shortly before the rename: a machine may have been started on the file
        // meanwhile.
        check_place(&self.path, self.existing)?;
        let named = self.name();
        named.map_err(|e| place_taken(Error::from(e)))?;
        let synced = sync_directory_of(&self.path);
        if synced.is_err() && self.existing == Existing::Keep {
            // Remove what failed, so that the next attempt does not find it.
            let _ = std::fs::remove_file(&self.path);
        }
        synced
    }

    /// Gives the file its name.
    fn name(&mut self) -> io::Result<()> {
        let temporary = match (self.temporary.take(), self.existing) {
            (Some(temporary), _) => temporary,
            (None, Existing::Keep) => return self.link(&self.path),
            // A link can't replace a file, a rename can.
            (None, Existing::Replace) => tempfile::Builder::new()
                .prefix(PREFIX)
                .make_in(directory_of(&self.path), |path| self.link(path))?
                .into_temp_path(),
        };
        let named = match self.existing {
            Existing::Keep => temporary.persist_noclobber(&self.path),
            Existing::Replace => temporary.persist(&self.path),
        };
        named.map_err(|e| e.error)
    }

    fn link(&self, path: &Path) -> io::Result<()> {
        Ok(linkat(
            CWD,
            &self.open_path,
            CWD,
            path,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }
}

/// Creates a file without a name. Returns it with its path in /proc; `None` if the host does not
/// support it.
fn without_name(dir: &Path) -> Result<Option<(std::fs::File, PathBuf)>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let file = match rustix::fs::open(dir, flags, Mode::from_raw_mode(PERMISSIONS)) {
        Ok(file) => std::fs::File::from(file),
        // The answers of a filesystem or an old kernel that has no files without a name. If the
        // directory is missing, the file with a temporary name reports it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(Error::from(errno).in_file(dir)),
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without /proc, or if the umask denies it, the file could not be opened again.
    let again = std::fs::File::options().read(true).write(true).open(&path);
    Ok(again.is_ok().then_some((file, path)))
}

fn with_temporary_name(dir: &Path) -> Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(PERMISSIONS))
        .tempfile_in(dir)
        .map_err(|e| Error::from(e).in_file(dir))
}

pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_directory_of(path: &Path) -> Result<()> {
    let dir = directory_of(path);
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|e| Error::from(e).in_file(dir))
}

/// Fails unless a new file may be created at `path`.
pub(crate) fn check_place(path: &Path, existing: Existing) -> Result<()> {
    let there = match path.symlink_metadata() {
        Ok(there) => there,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    if existing == Existing::Keep {
        return Err(place_taken(Error::new(ErrorKind::Exists, "file exists")));
    }
    if !there.is_file() {
        let reason = "not a regular file; refusing to replace it";
        return Err(
            Error::new(ErrorKind::Exists, reason).with_hint("remove it, or choose another path")
        );
    }
    let file = File::open(path)?;
    lock_for_writing(&file, path).map(|_| ())
}

fn place_taken(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Exists => error.with_hint("use --force to replace it"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> usize {
        dir.read_dir().unwrap().count()
    }

    #[test]
    fn the_name_comes_last_and_nothing_is_left_without_it() {
        for is_named in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("disk.raw");
            let new = |existing| {
                if is_named {
                    return NewFile::of(None, &path, existing).unwrap();
                }
                let new = NewFile::begin(&path, existing).unwrap();
                assert!(new.temporary.is_none());
                assert_eq!(names(dir.path()), usize::from(path.exists()));
                new
            };
            drop(new(Existing::Keep));
            assert_eq!(names(dir.path()), 0);
            for (existing, contents) in [(Existing::Keep, "one"), (Existing::Replace, "two")] {
                let file = new(existing);
                std::fs::write(file.open_path(), contents).unwrap();
                file.finish().unwrap();
                assert_eq!(std::fs::read_to_string(&path).unwrap(), contents);
                assert_eq!(names(dir.path()), 1);
            }
            std::fs::remove_file(&path).unwrap();
            let late = new(Existing::Keep);
            std::fs::write(&path, "three").unwrap();
            assert_eq!(late.finish().unwrap_err().kind(), ErrorKind::Exists);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
            assert_eq!(names(dir.path()), 1);
        }
    }
}
