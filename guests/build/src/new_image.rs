//! A new image that gets its name when it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_disk::{CancellationToken, Error, ErrorKind, Result};
use diskfs_image::create::{CreateOptions, Existing, NewImage, Preallocation, UnfinishedImage};
use diskfs_image::{ConvertOptions, FileOpener, Image, OpenOptions};

/// A new image that has no name, or a temporary one, until it is complete. Without
/// [`finish`](Self::finish) nothing is left of it.
#[derive(Debug)]
pub struct NewImageFile {
    path: PathBuf,
    existing: Existing,
    image: UnfinishedImage,
}

impl NewImageFile {
    /// Creates an image of this size for `path`.
    ///
    /// # Errors
    /// `Exists` if there is such a file that must be kept; the errors of creating it.
    pub fn create(
        path: &Path,
        image: NewImage,
        size_bytes: u64,
        existing: Existing,
    ) -> Result<Self> {
        let options = CreateOptions {
            image,
            size_bytes: Some(size_bytes),
            preallocation: Preallocation::Off,
            existing,
        };
        let image = UnfinishedImage::create(path, &options).map_err(|e| of_new(path, e))?;
        Ok(Self {
            path: path.to_owned(),
            existing,
            image,
        })
    }

    /// Returns the path that the image will have. Until then only [`opener`](Self::opener) opens it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what opens the image by its path, and other files as usual.
    pub fn opener(&self) -> Arc<dyn FileOpener> {
        self.image.opener()
    }

    /// Replaces the image, which is qcow2, by a compressed copy.
    ///
    /// # Errors
    /// `Cancelled`; `NoSpace` and the like.
    pub(crate) fn compress(self, cancellation: &CancellationToken) -> Result<Self> {
        let options = OpenOptions {
            files: self.opener(),
            ..OpenOptions::default()
        };
        let packed = Image::open(&self.path, &options);
        let packed = packed.and_then(|image| {
            let device = image.device();
            let options = ConvertOptions {
                existing: self.existing,
                ..ConvertOptions::compressed()
            };
            UnfinishedImage::converted(&*device, &self.path, &options, &mut |_| cancellation.flow())
        });
        let image = packed.map_err(|e| of_new(&self.path, e))?;
        Ok(Self { image, ..self })
    }

    /// Makes the image durable, and gives it its name.
    ///
    /// # Errors
    /// `Exists` if there is such a file by now that must be kept; `Locked` if the file to be
    /// replaced is in use; `Io`.
    pub fn finish(self) -> Result<()> {
        let Self { path, image, .. } = self;
        image.finish().map_err(|e| of_new(&path, e))
    }
}

/// Returns an error about a new image. What replaces an existing file is the caller's to say.
fn of_new(path: &Path, error: diskfs_block::Error) -> Error {
    match error.kind() {
        diskfs_block::ErrorKind::Exists if !path.is_dir() => {
            Error::new(ErrorKind::Exists, error.reason()).in_file(path)
        }
        _ => Error::from(error).in_file(path),
    }
}
