//! The output of a command: standard output, or a file that appears only when it is complete.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, fchown};
use std::path::Path;

use diskfs::vfs::copy_out::{Existing, NewFile};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use super::session::raw_stdout;

/// Returns true if a file name on the command line stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// An output file.
#[derive(Debug)]
pub(crate) struct OutFile {
    file: File,
    /// The file, if it does not have its name yet.
    unnamed: Option<NewFile<File>>,
}

impl OutFile {
    /// Returns standard output.
    pub(crate) fn stdout() -> Result<Self> {
        let file = raw_stdout()?;
        Ok(Self {
            file,
            unnamed: None,
        })
    }

    /// Creates a file that replaces the one at `path` when [`finish`](Self::finish) is called; `-`
    /// is standard output. Refuses an image that is being read. Devices and pipes are written to
    /// directly.
    pub(crate) fn create(path: &Path, reading: &[&Filesystem]) -> Result<Self> {
        if is_standard(path) {
            return Self::stdout();
        }
        let in_place = |e: io::Error| Error::from(e).in_file(path);
        let there = path.metadata();
        if let Ok(there) = &there {
            refuse_images(path, there, reading)?;
        }
        // A symlink is kept, and the file that it points to is replaced.
        let target = path.canonicalize();
        let unnamed = match (&there, &target) {
            (Ok(there), Ok(target)) if there.is_file() && !is_descriptor(path) => {
                replacement(target, there)
            }
            (Err(_), _) if path.symlink_metadata().is_err() => new_file(path).map(Some),
            _ => Ok(None),
        };
        if let Some(unnamed) = unnamed.map_err(in_place)? {
            let file = unnamed.as_fd().try_clone_to_owned().map_err(in_place)?;
            return Ok(Self {
                file: file.into(),
                unnamed: Some(unnamed),
            });
        }
        let is_file = there.as_ref().is_ok_and(Metadata::is_file);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(is_file);
        let file = options.open(path).map_err(in_place)?;
        Ok(Self {
            file,
            unnamed: None,
        })
    }

    /// Gives the completed file its name.
    pub(crate) fn finish(mut self, path: Option<&Path>) -> Result<()> {
        let named = self.unnamed.take().map_or(Ok(()), NewFile::finish);
        named.map_err(|errno| {
            let error = Error::from(io::Error::from(errno));
            match path {
                Some(path) => error.in_file(path),
                None => error,
            }
        })
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns true if a path names an open file descriptor of a process: other processes continue to
/// write to the same file.
fn is_descriptor(path: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|dir| path.starts_with(dir))
}

fn refuse_images(path: &Path, there: &Metadata, reading: &[&Filesystem]) -> Result<()> {
    let is_there = |image: Metadata| (image.dev(), image.ino()) == (there.dev(), there.ino());
    let mut images = reading.iter().map(|read| read.image_path().metadata());
    let is_image = images.any(|image| image.is_ok_and(is_there));
    if is_image && !there.file_type().is_char_device() {
        return Err(
            Error::new(ErrorKind::Invalid, "the output file is the image itself").in_file(path),
        );
    }
    Ok(())
}

/// Creates a file that will replace an existing one, with its mode and owner. Returns `None` if the
/// existing file must be written to directly: if no file can be created in its directory, or if its
/// owner would change.
fn replacement(path: &Path, there: &Metadata) -> io::Result<Option<NewFile<File>>> {
    // Other hard links of the file would keep the old contents, and a user who cannot write to the
    // file must not replace it.
    if there.nlink() > 1 {
        return Ok(None);
    }
    OpenOptions::new().write(true).open(path)?;
    let Ok(new) = new_file(path) else {
        return Ok(None);
    };
    let file = File::from(new.as_fd().try_clone_to_owned()?);
    let ours = file.metadata()?;
    let is_ours = (ours.uid(), ours.gid()) == (there.uid(), there.gid());
    if !is_ours && fchown(&file, Some(there.uid()), Some(there.gid())).is_err() {
        return Ok(None);
    }
    file.set_permissions(there.permissions())?;
    Ok(Some(new))
}

fn new_file(path: &Path) -> io::Result<NewFile<File>> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    Ok(NewFile::create(
        File::open(dir)?,
        name,
        Existing::Replace,
        0o666,
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(path: &Path, text: &str) {
        let mut out = OutFile::create(path, &[]).unwrap();
        out.write_all(text.as_bytes()).unwrap();
        out.finish(Some(path)).unwrap();
    }

    #[test]
    fn a_file_is_replaced_when_its_successor_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        write(&path, "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", &link).unwrap();
        let mut out = OutFile::create(&link, &[]).unwrap();
        out.write_all(b"half").unwrap();
        drop(out);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write(&link, "new");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        write(Path::new("/dev/null"), "nothing");
    }
}
