//! A new image that has a temporary name until it is complete.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use diskfs_disk::{CancellationToken, Error, ErrorKind, Result};
use diskfs_image::create::{self, CreateOptions, Existing, NewImage, Preallocation};

use crate::ids::fill_random;

/// A new image that has a temporary name until it is complete. Without [`finish`](Self::finish) it
/// is removed.
#[derive(Debug)]
pub struct NewImageFile {
    path: PathBuf,
    temporary: PathBuf,
}

impl NewImageFile {
    /// Creates an image of this size in the directory of `path`.
    ///
    /// # Errors
    /// `Exists` if there is such a file that must be kept; the errors of creating it.
    pub fn create(
        path: &Path,
        image: NewImage,
        size_bytes: u64,
        existing: Existing,
    ) -> Result<Self> {
        if existing == Existing::Keep && path.symlink_metadata().is_ok() {
            return Err(Error::new(ErrorKind::Exists, "the file exists").in_file(path));
        }
        let options = CreateOptions {
            image,
            size_bytes: Some(size_bytes),
            preallocation: Preallocation::Off,
            existing: Existing::Keep,
        };
        let mut number = [0; 8];
        fill_random(&mut number)?;
        let name = path.file_name().unwrap_or_default().display();
        let number = u64::from_le_bytes(number);
        let temporary = path.with_file_name(format!(".{name}.{number:016x}"));
        let file = Self {
            path: path.to_owned(),
            temporary,
        };
        create::create(&file.temporary, &options).map_err(|e| file.under_its_name(e.into()))?;
        Ok(file)
    }

    /// Returns the temporary path.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Replaces the image, which is qcow2, by a compressed copy.
    ///
    /// # Errors
    /// `Cancelled`; `NoSpace` and the like.
    pub(crate) fn compress(&self, cancellation: &CancellationToken) -> Result<()> {
        let packed = Self {
            path: self.path.clone(),
            temporary: self.temporary.with_extension("compressed"),
        };
        let options = diskfs_image::OpenOptions::default();
        let copied = diskfs_image::Image::open(&self.temporary, &options).and_then(|image| {
            diskfs_image::compressed_copy(&*image.device(), &packed.temporary, &mut |_| {
                cancellation.flow()
            })
        });
        copied.map_err(|error| packed.under_its_name(self.under_its_name(error.into())))?;
        let renamed = std::fs::rename(&packed.temporary, &self.temporary);
        renamed.map_err(|error| Error::from(error).in_file(&self.path))
    }

    /// Gives the image its name.
    ///
    /// # Errors
    /// `Exists` if there is such a file by now that must be kept; `Io`.
    pub fn finish(&self, existing: Existing) -> Result<()> {
        let flags = match existing {
            Existing::Replace => RenameFlags::empty(),
            Existing::Keep => RenameFlags::NOREPLACE,
        };
        let renamed = renameat_with(CWD, &self.temporary, CWD, &self.path, flags);
        renamed.map_err(|e| Error::from(std::io::Error::from(e)).in_file(&self.path))
    }

    /// Returns an error about the temporary name as one about the image.
    pub fn under_its_name(&self, error: Error) -> Error {
        if error.path() != Some(&self.temporary) {
            return error;
        }
        let renamed = Error::new(error.kind(), error.reason()).in_file(&self.path);
        match error.next_step() {
            Some(step) => renamed.with_hint(step.to_owned()),
            None => renamed,
        }
    }
}

impl Drop for NewImageFile {
    fn drop(&mut self) {
        // After `finish` there is no such file.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
