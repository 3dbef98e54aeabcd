//! A new image without its name.

mod early_writes;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{File, Result};

use early_writes::EarlyWrites;

use super::file::NewFile;
use super::{CreateOptions, Existing, write};
use crate::{Access, DirectOpener, FileOpener, Gate, NamedFile};

/// A new image that can be filled before it gets its name.
///
/// The file has no name at all (`O_TMPFILE`), so nothing is left of it if the process is killed. If
/// the host's filesystem has no files without a name, it has a temporary one. Without
/// [`finish`](Self::finish) nothing is left.
///
/// ```
/// use diskfs_image::create::{NewImage, UnfinishedImage};
/// use diskfs_image::{CreateOptions, Image, OpenOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("disk.raw");
/// let options = CreateOptions::new(NewImage::Raw, Some(1 << 20));
/// let new = UnfinishedImage::create(&path, &options)?;
/// let files = new.opener();
/// let image = Image::open(&path, &OpenOptions { files, ..OpenOptions::default() })?;
/// assert!(!path.exists());
/// new.finish()?;
/// assert!(path.exists());
/// # Ok::<(), diskfs_block::Error>(())
/// ```
#[derive(Debug)]
pub struct UnfinishedImage {
    file: NewFile,
    _early_writes: Option<EarlyWrites>,
}

impl UnfinishedImage {
    /// Creates an image that will be called `path`.
    ///
    /// # Errors
    /// As for [`create`](super::create).
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Self> {
        let written = write(path, options, &mut |_| ControlFlow::Continue(()));
        written
            .map(|(file, _)| Self::of(file))
            .map_err(|e| e.in_file(path))
    }

    /// Creates an empty file that will be called `path`.
    pub(crate) fn empty(path: &Path, existing: Existing) -> Result<Self> {
        let file = NewFile::begin(path, existing);
        file.map(Self::of).map_err(|e| e.in_file(path))
    }

    fn of(file: NewFile) -> Self {
        let early_writes = EarlyWrites::start(file.open_path());
        Self {
            file,
            _early_writes: early_writes,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn file(&self) -> &std::fs::File {
        self.file.file()
    }

    /// Returns what opens the image by its path before it has it, and other files as usual. It
    /// must not be used any longer than this value. The image is not flushed, since it is made
    /// durable when it is complete.
    pub fn opener(&self) -> Arc<dyn FileOpener> {
        Arc::new(UnfinishedOpener {
            path: self.file.path().to_owned(),
            open_path: self.file.open_path().to_owned(),
        })
    }

    /// Makes the image durable, and gives it its name.
    ///
    /// # Errors
    /// `Exists` if there is such a file by now that must be kept; `Locked` if the file to be
    /// replaced is in use; `NoSpace`; `Io`.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// The opener of an image that does not have its name yet.
#[derive(Debug)]
struct UnfinishedOpener {
    path: PathBuf,
    /// The path in /proc, or the temporary name.
    open_path: PathBuf,
}

impl FileOpener for UnfinishedOpener {
    fn open(&self, path: &Path, access: Access) -> Result<File> {
        if path != self.path {
            return DirectOpener.open(path, access);
        }
        let mut options = std::fs::File::options();
        let options = options.read(true).write(access == Access::ReadWrite);
        let file = options.open(&self.open_path);
        // Errors name the path that the user knows.
        let file = file.map_err(|e| diskfs_block::Error::from(e).in_file(path))?;
        let file = File::from_fd(file.into(), path)?;
        Ok(file.unflushed().written_back_early())
    }

    fn open_named(&self, named: &NamedFile<'_>, gate: &Gate) -> Result<File> {
        DirectOpener.open_named(named, gate)
    }

    fn overlays_of(&self, image: &Path, file: &File) -> Vec<String> {
        if image == self.path {
            return Vec::new();
        }
        DirectOpener.overlays_of(image, file)
    }
}
