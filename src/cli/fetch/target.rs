//! The new file of a copy: without a name until it is complete, or called FILE.partial.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use diskfs::block::bytes::is_zero;
use diskfs::vfs::copy_out::{Existing, NewFile};
use diskfs::{Error, ErrorKind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::record::{read_record, write_record};

/// The unit of holes, which is the smallest block of common filesystems.
const HOLE_BYTES: usize = 4096;

/// The name of the new file.
pub(super) struct Place {
    path: PathBuf,
    dir: PathBuf,
    existing: Existing,
}

/// A new file that is not complete.
pub(super) struct NewTarget {
    place: Place,
    file: File,
    kind: Kind,
    size_bytes: u64,
    done_bytes: u64,
}

enum Kind {
    /// A file that vanishes if the process ends.
    Unnamed(NewFile<File>),
    /// A file that a later call continues.
    Partial {
        path: PathBuf,
        record_path: PathBuf,
        source: String,
    },
}

impl Place {
    /// Checks that the file may be made here.
    pub(super) fn of(path: &Path, force: bool) -> Result<Self> {
        // A symlink is kept, and the file that it points to is replaced.
        let target = path.canonicalize().ok().filter(|_| force);
        let path = target.unwrap_or_else(|| path.to_owned());
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !force {
            return Err(exists(&path));
        }
        if is_there && path.metadata().is_ok_and(|there| !there.is_file()) {
            let reason = "not a regular file, and not replaced";
            return Err(Error::new(ErrorKind::Exists, reason).in_file(path));
        }
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        let existing = if force {
            Existing::Replace
        } else {
            Existing::Keep
        };
        Ok(Self {
            path,
            dir,
            existing,
        })
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }

    fn in_file(&self, error: impl Into<io::Error>) -> Error {
        let error = error.into();
        match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.path),
            _ => Error::from(error).in_file(&self.path),
        }
    }
}

fn exists(path: &Path) -> Error {
    let error = Error::new(ErrorKind::Exists, "the file exists").in_file(path);
    error.with_hint("--force replaces it")
}

impl NewTarget {
    /// Creates a file without a name.
    pub(super) fn unnamed(place: Place, size_bytes: u64) -> Result<Self> {
        let create = || {
            let name = place.path.file_name();
            let name = name.ok_or(io::ErrorKind::InvalidFilename)?;
            let dir = File::open(&place.dir)?;
            let new = NewFile::create(dir, name, place.existing, 0o666)?;
            let file = File::from(new.as_fd().try_clone_to_owned()?);
            file.set_len(size_bytes)?;
            Ok((new, file))
        };
        let created: io::Result<_> = create();
        let (new, file) = created.map_err(|e| place.in_file(e))?;
        Ok(Self {
            place,
            file,
            kind: Kind::Unnamed(new),
            size_bytes,
            done_bytes: 0,
        })
    }

    /// Opens the file that an earlier call has left, or creates one. `source` describes the version
    /// of what is copied.
    pub(super) fn resumable(place: Place, source: &str, size_bytes: u64) -> Result<Self> {
        let (path, record_path) = (place.with_suffix(".partial"), place.with_suffix(".resume"));
        let in_file = |e: io::Error| Error::from(e).in_file(&path);
        let is_new = !path.try_exists().map_err(in_file)?;
        if is_new {
            // The record comes first: a file without one may be anybody's.
            write_record(&record_path, &place.dir, 0, source)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(is_new);
        let file = options.open(&path).map_err(in_file)?;
        lock(&file).map_err(|error| error.in_file(&path))?;
        // Read while the file is locked: another process may have continued meanwhile.
        let recorded = read_record(&record_path, source).map_err(|error| {
            let paths = (path.display(), record_path.display());
            error.with_hint(format!("remove {} and {} to start again", paths.0, paths.1))
        })?;
        let there = file.metadata().map_err(in_file)?.len();
        let done_bytes = recorded.min(size_bytes).min(there);
        // What was written after the record may be damaged by a power cut.
        let cut = file
            .set_len(done_bytes)
            .and_then(|()| file.set_len(size_bytes));
        cut.map_err(in_file)?;
        Ok(Self {
            place,
            file,
            kind: Kind::Partial {
                path,
                record_path,
                source: source.to_owned(),
            },
            size_bytes,
            done_bytes,
        })
    }

    /// Returns the number of bytes that were copied.
    pub(super) fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Reads the bytes that an earlier call has copied, in order.
    pub(super) fn read_done(&self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut buf = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < self.done_bytes {
            let left = usize::try_from(self.done_bytes - offset).unwrap_or(usize::MAX);
            let len = buf.len().min(left);
            let part = &mut buf[..len];
            self.file
                .read_exact_at(part, offset)
                .map_err(|e| self.place.in_file(e))?;
            take(part);
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Adds the next bytes. Blocks of zeroes become holes.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let written = write_sparse(&self.file, self.done_bytes, bytes);
        written.map_err(|e| self.place.in_file(e))?;
        self.done_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Records how far the copy is, so that a later call continues there.
    pub(super) fn record(&self) -> Result<()> {
        if let Kind::Partial {
            record_path,
            source,
            ..
        } = &self.kind
        {
            self.file.sync_all().map_err(|e| self.place.in_file(e))?;
            write_record(record_path, &self.place.dir, self.done_bytes, source)?;
        }
        Ok(())
    }

    /// Returns true if a later call can continue the copy.
    pub(super) fn is_resumable(&self) -> bool {
        matches!(self.kind, Kind::Partial { .. })
    }

    /// Gives the complete file its name, durably.
    pub(super) fn finish(self) -> Result<()> {
        debug_assert_eq!(self.done_bytes, self.size_bytes);
        self.file.sync_all().map_err(|e| self.place.in_file(e))?;
        match self.kind {
            Kind::Unnamed(new) => new.finish().map_err(|e| self.place.in_file(e))?,
            Kind::Partial {
                path, record_path, ..
            } => {
                let renamed = rename(&path, &self.place.path, self.place.existing);
                renamed.map_err(|e| self.place.in_file(e))?;
                let removed = std::fs::remove_file(&record_path);
                removed.map_err(|e| Error::from(e).in_file(&record_path))?;
            }
        }
        let synced = File::open(&self.place.dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| self.place.in_file(e))
    }

    /// Removes the file, which is not the expected one.
    pub(super) fn discard(self) {
        if let Kind::Partial {
            path, record_path, ..
        } = self.kind
        {
            // The error that made the file useless is reported.
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(record_path);
        }
    }
}

fn lock(file: &File) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Locked,
            "another process makes the same copy",
        )),
        Err(TryLockError::Error(e)) => Err(e.into()),
    }
}

fn rename(from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
    if existing == Existing::Keep {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Filesystems without this kind of rename, such as NFS.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            other => return Ok(other?),
        }
    }
    std::fs::rename(from, to)
}

/// Writes the blocks that are not zeroes.
fn write_sparse(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut at = 0;
    for run in bytes
        .chunks(HOLE_BYTES)
        .collect::<Vec<_>>()
        .chunk_by(|a, b| is_zero(a) == is_zero(b))
    {
        let len: usize = run.iter().map(|block| block.len()).sum();
        if !is_zero(run[0]) {
            file.write_all_at(&bytes[at..at + len], offset + at as u64)?;
        }
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn zeroes_become_holes() {
        let file = tempfile::tempfile().unwrap();
        let mut bytes = vec![0; 1 << 20];
        bytes[5000] = 1;
        *bytes.last_mut().unwrap() = 2;
        bytes.push(3);
        file.set_len(bytes.len() as u64 + 10).unwrap();
        write_sparse(&file, 10, &bytes).unwrap();
        let mut found = vec![9; bytes.len()];
        file.read_exact_at(&mut found, 10).unwrap();
        assert!(found == bytes);
        assert!(file.metadata().unwrap().blocks() < 128);
    }
}
