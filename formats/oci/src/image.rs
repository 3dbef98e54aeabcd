//! An image: its manifest and configuration.

use diskfs_block::{BlockRead, Error, Result};

use crate::artifact::{self, DiskBlob};
use crate::blobs::{Blobs, contents, parse, read_document};
use crate::config::{Config, is_config};
use crate::descriptor::Descriptor;
use crate::digest::Digest;
use crate::index::Index;
use crate::layout::{self, INDEX_NAME, LAYOUT_NAME};
use crate::manifest::{Manifest, check_layer};
use crate::select::select;

/// An image of a layout.
#[derive(Debug)]
pub struct Image {
    digest: Digest,
    manifest: Manifest,
}

/// The part of an image that contains its disk.
#[derive(Debug, Clone)]
pub enum Contents {
    /// The disk is a file of these layers, the lowest first.
    Layers(Vec<Descriptor>),
    /// The disk is a blob.
    Blob(Box<DiskBlob>),
}

impl Image {
    /// Opens the image with this tag, name or digest in a layout. `marker` is its file `oci-layout`,
    /// and `index` its file `index.json`. Without a reference, the layout must contain only one
    /// image; of an image for several platforms, the one for this host is opened.
    ///
    /// The sizes and digests of the indexes, the manifest and the configuration are verified.
    ///
    /// # Errors
    /// `NotFound` if no image matches, and `Invalid` if several do, with a list; `Corrupt` for a
    /// wrong size or digest and for invalid JSON; `Unsupported` for unknown media types and for
    /// what exceeds a limit.
    pub fn open(
        blobs: &dyn Blobs,
        marker: &dyn BlockRead,
        index: &dyn BlockRead,
        reference: Option<&str>,
    ) -> Result<Self> {
        layout::check(&contents(marker, LAYOUT_NAME)?)?;
        let index: Index = parse(&contents(index, INDEX_NAME)?, INDEX_NAME)?;
        let selected = select(blobs, &index, reference)?;
        let manifest: Manifest = read_document(blobs, &selected, "manifest")?;
        manifest.check()?;
        Ok(Self {
            digest: selected.digest()?,
            manifest,
        })
    }

    /// Returns the digest of the manifest.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns where the disk is. `name` selects one of the disks of an artifact.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn contents(&self, blobs: &dyn Blobs, name: Option<&str>) -> Result<Contents> {
        let layers = &self.manifest.layers;
        let is_artifact = !is_config(&self.manifest.config.media_type);
        if is_artifact || layers.iter().any(DiskBlob::is_disk) {
            let disk = artifact::disk(layers, name)?;
            return Ok(Contents::Blob(Box::new(disk)));
        }
        let config: Config = read_document(blobs, &self.manifest.config, "configuration")?;
        let (listed, found) = (config.rootfs.diff_ids.len(), layers.len());
        if listed != found {
            let reason = format!("the manifest has {found} layers, but the configuration {listed}");
            return Err(Error::corrupt(reason));
        }
        for layer in layers {
            check_layer(layer)?;
        }
        Ok(Contents::Layers(layers.clone()))
    }
}
