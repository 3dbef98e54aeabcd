//! The directory of images. No request gets out of it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::{Error, Result};
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, SeekFrom, openat, openat2, seek};
use rustix::io::Errno;

use crate::version::Version;

/// The largest number of images in a listing.
const MAX_NAMES: usize = 10_000;

/// A directory whose files are served.
#[derive(Debug)]
pub struct Images {
    dir: OwnedFd,
}

/// An image that is open, in the version that it had then.
#[derive(Debug)]
pub struct Image {
    /// The file, for reading.
    pub file: File,
    /// The version of the file.
    pub version: Version,
}

impl Image {
    /// Reads a part, of the version that was opened.
    pub(crate) fn read(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, range.start)?;
        self.check()?;
        Ok(bytes)
    }

    /// Fails if the file has another version than the one that was opened.
    pub(crate) fn check(&self) -> io::Result<()> {
        if Version::of(&self.file.metadata()?) == self.version {
            return Ok(());
        }
        Err(io::Error::other("the image has changed"))
    }

    /// Returns the first byte of a range that is in no hole, or its end.
    pub(crate) fn next_data(&self, range: &Range<u64>) -> u64 {
        match seek(&self.file, SeekFrom::Data(range.start)) {
            Ok(data) => data.clamp(range.start, range.end),
            // No data from here to the end (lseek(2)).
            Err(Errno::NXIO) => range.end,
            // A host filesystem without holes.
            Err(_) => range.start,
        }
    }

    /// Returns the first byte of a range that is in a hole, or its end.
    pub(crate) fn next_hole(&self, range: &Range<u64>) -> u64 {
        let hole = seek(&self.file, SeekFrom::Hole(range.start));
        hole.map_or(range.end, |hole| hole.clamp(range.start, range.end))
    }
}

impl Images {
    /// Opens the directory.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn new(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, path, flags, Mode::empty());
        let dir = dir.map_err(|e| Error::from(e).in_file(path))?;
        Ok(Self { dir })
    }

    /// Opens an image. Returns `None` if there is no regular file with this name, if the name is not
    /// one of an image, or if the file is a symlink.
    ///
    /// # Errors
    /// Those of the host.
    pub fn open(&self, name: &str) -> io::Result<Option<Image>> {
        if !is_name(name) {
            return Ok(None);
        }
        // A pipe would stop the server if opening waited for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = match openat2(&self.dir, name, flags, Mode::empty(), resolve) {
            // The name is one component, which NOFOLLOW alone keeps in the directory, too.
            Err(Errno::NOSYS | Errno::PERM) => openat(&self.dir, name, flags, Mode::empty()),
            other => other,
        };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG | Errno::ACCESS) => {
                return Ok(None);
            }
            Err(errno) => return Err(errno.into()),
        };
        let metadata = file.metadata()?;
        Ok(metadata.is_file().then(|| Image {
            version: Version::of(&metadata),
            file,
        }))
    }

    /// Returns the names of the images, in order.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            if is_name(&name) && names.len() < MAX_NAMES {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Returns true for a name in the directory itself that is not hidden: hidden files are unfinished
/// ones, and files of other programs.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_of_the_directory_are_images() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("images");
        std::fs::create_dir_all(at.join("sub")).unwrap();
        for name in ["a.raw", "sub/b.raw", ".hidden", "../secret"] {
            std::fs::write(at.join(name), name).unwrap();
        }
        symlink("a.raw", at.join("link")).unwrap();
        symlink("../secret", at.join("out")).unwrap();
        rustix::fs::mknodat(
            CWD,
            at.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let images = Images::new(&at).unwrap();
        assert!(images.open("a.raw").unwrap().is_some());
        for name in [
            "",
            ".",
            "..",
            "/",
            "sub",
            "sub/b.raw",
            "../secret",
            "./a.raw",
            ".hidden",
            "link",
            "out",
            "pipe",
            "missing",
            "a.raw/",
            "a.raw\0",
            "/etc/passwd",
        ] {
            assert!(images.open(name).unwrap().is_none(), "{name:?}");
        }
        assert!(images.names().unwrap().contains(&"a.raw".to_owned()));
    }
}
