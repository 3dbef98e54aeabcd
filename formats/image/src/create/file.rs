//! The file of a new image, which gets its name when it is complete.

use std::fs::Permissions;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use diskfs_block::{BlockWrite, Error, ErrorKind, File, Result, check_cancelled};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::{Existing, Preallocation};
use crate::lock::lock_for_writing;

/// The number of zeroes to write at once for full preallocation.
const FILL_BYTES: u64 = 4 << 20;

/// A temporary file in the directory of its destination.
#[derive(Debug)]
pub(super) struct NewFile<'a> {
    file: NamedTempFile,
    path: &'a Path,
    existing: Existing,
}

impl<'a> NewFile<'a> {
    /// Creates a temporary file for `path`, if the destination is allowed.
    pub(super) fn begin(path: &'a Path, existing: Existing) -> Result<Self> {
        check_place(path, existing)?;
        let dir = directory_of(path);
        // The umask applies to this mode, as for any new file.
        let file = tempfile::Builder::new()
            .prefix(".diskfs-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)
            .map_err(|e| Error::from(e).in_file(dir))?;
        Ok(Self {
            file,
            path,
            existing,
        })
    }

    /// Sets the file's length.
    pub(super) fn set_len(&self, len_bytes: u64) -> Result<()> {
        Ok(self.file.as_file().set_len(len_bytes)?)
    }

    /// Returns the file as a device of its current length.
    pub(super) fn device(&self) -> Result<File> {
        let fd = self.file.as_file().try_clone()?;
        File::from_fd(fd.into(), self.path)
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
        let file = self.file.as_file();
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len_bytes) {
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
    pub(super) fn finish(self) -> Result<()> {
        self.file.as_file().sync_all()?;
        // Check again, shortly before the rename: a machine may have been started on the file
        // meanwhile.
        check_place(self.path, self.existing)?;
        let named = match self.existing {
            Existing::Keep => self.file.persist_noclobber(self.path),
            Existing::Replace => self.file.persist(self.path),
        };
        named.map_err(|e| place_taken(Error::from(e.error)))?;
        let dir = directory_of(self.path);
        let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| {
            if self.existing == Existing::Keep {
                // Remove what failed, so that the next attempt does not find it.
                let _ = std::fs::remove_file(self.path);
            }
            Error::from(e).in_file(dir)
        })
    }
}

pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Fails unless a new file may be created at `path`.
fn check_place(path: &Path, existing: Existing) -> Result<()> {
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
        ErrorKind::Exists => error.with_hint("use --force to replace it with an empty disk"),
        _ => error,
    }
}
