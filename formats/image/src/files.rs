//! Opening the files of an image: directly, or by another process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, File, Result};

use crate::gate::{Access, Gate, NamedFile};
use crate::{base, oci, uri};

/// An opener of the host files that belong to images.
///
/// Every file that opening an image needs is opened here: the image, its backing files, its data
/// file. A process that may not open files asks another one through it, which then decides by facts
/// that it has gathered itself.
pub trait FileOpener: fmt::Debug + Send + Sync {
    /// Opens a file that the user named.
    ///
    /// # Errors
    /// As for [`File::open`] and [`File::open_read_write`].
    fn open(&self, path: &Path, access: Access) -> Result<File>;

    /// Opens a file that an image names, as far as `gate` allows it.
    ///
    /// # Errors
    /// [`Denied`](diskfs_block::ErrorKind::Denied) if the gate refuses the file, and those of
    /// [`File::open`].
    fn open_named(&self, named: &NamedFile<'_>, gate: &Gate) -> Result<File>;

    /// Returns the device that takes the place of a file that an image names, for images whose files
    /// are not files of the host. With `None`, the default, [`open_named`](Self::open_named) opens
    /// it.
    fn named_device(&self, named: &NamedFile<'_>) -> Option<Arc<dyn BlockWrite>> {
        let _ = named;
        None
    }

    /// Returns the names of the overlays in the directory of `image` whose backing file it is, as
    /// far as they can be found quickly. They are only shown in a warning.
    fn overlays_of(&self, image: &Path, file: &File) -> Vec<String>;
}

/// Opens files directly, in this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectOpener;

impl FileOpener for DirectOpener {
    fn open(&self, path: &Path, access: Access) -> Result<File> {
        uri::refuse(path)?;
        oci::refuse(path)?;
        match access {
            Access::Read => File::open(path),
            Access::ReadWrite => File::open_read_write(path),
        }
    }

    fn open_named(&self, named: &NamedFile<'_>, gate: &Gate) -> Result<File> {
        gate.open(named)
    }

    fn overlays_of(&self, image: &Path, file: &File) -> Vec<String> {
        base::overlays_of(image, file)
    }
}
