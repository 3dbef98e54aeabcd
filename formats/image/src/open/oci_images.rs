//! OCI images in registries and in layouts, as the caller sees them.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};
use diskfs_oci::{Blobs, Descriptor, Image, RegistryName, open_blob};

use super::Opener;
use super::oci_store::Store;
use crate::OpenOptions;
use crate::oci::OciName;

/// The disk of an OCI image in a registry.
#[derive(Debug)]
pub struct RegistryDisk {
    /// The file of the disk.
    pub device: Arc<dyn BlockRead>,
    /// The warnings about it.
    pub warnings: Vec<String>,
}

impl RegistryDisk {
    /// Opens the disk of the image whose manifest or index is `root`. The caller gets the blobs from
    /// the registry.
    ///
    /// # Errors
    /// Those of [`Image::open_root`] and [`Image::contents`]; those of layers and of reading.
    pub fn open(name: &RegistryName, root: &dyn BlockRead, blobs: &dyn Blobs) -> Result<Self> {
        let options = OpenOptions::default();
        let opener = Opener::new(&options)?;
        let image = Image::open_root(blobs, root, name.reference.digest())?;
        let disk = opener.disk_of(blobs, &image, name.disk.as_deref())?;
        Ok(Self {
            device: disk.unpacked.device,
            warnings: disk.unpacked.warnings,
        })
    }
}

/// An OCI image in a layout: its documents and blobs.
#[derive(Debug)]
pub struct LayoutImage<'a> {
    store: Store<'a>,
    image: Image,
}

impl<'a> LayoutImage<'a> {
    /// Opens the image with this name: `oci-layout:DIR[:TAG]`, `oci-archive:FILE[:TAG]`.
    ///
    /// # Errors
    /// `Invalid` for another name; those of [`Image::open`] and of opening files.
    pub fn open(path: &Path, options: &'a OpenOptions) -> Result<Self> {
        let not_oci = || {
            let error = Error::invalid("not the name of an OCI image").in_file(path);
            Err(error.with_hint("write oci-layout:DIR:TAG or oci-archive:FILE:TAG"))
        };
        let name = OciName::parse(path).unwrap_or_else(not_oci)?;
        let opener = Opener::new(options)?;
        let (store, image) = opener.oci_image(&name).map_err(|e| e.in_file(path))?;
        Ok(Self { store, image })
    }

    /// Returns the image.
    pub const fn image(&self) -> &Image {
        &self.image
    }

    /// Opens a blob of the size that its descriptor says. Its digest is not verified.
    ///
    /// # Errors
    /// `Corrupt` for another size; those of opening files.
    pub fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn BlockRead>> {
        open_blob(&self.store, descriptor)
    }
}
