//! An image: its manifest and configuration.

use diskfs_block::{BlockRead, Error, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::artifact::{self, DiskBlob};
use crate::blobs::{Blobs, contents, parse, read_document, read_manifest};
use crate::config::{Config, is_config};
use crate::descriptor::Descriptor;
use crate::digest::Digest;
use crate::index::Index;
use crate::layout::{self, INDEX_NAME, LAYOUT_NAME};
use crate::manifest::{self, Manifest, check_layer};
use crate::select::select;

/// The keys that tell an index from a manifest: the media type may be missing in both.
#[derive(Debug, Deserialize)]
struct Outline {
    manifests: Option<IgnoredAny>,
    config: Option<IgnoredAny>,
}

/// An image of a layout, or of a registry.
#[derive(Debug)]
pub struct Image {
    digest: Digest,
    document: Vec<u8>,
    media_type: String,
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
        Self::selected(blobs, &select(blobs, &index, reference)?)
    }

    /// Opens the image of a registry whose manifest or index is `root`. Of an image for several
    /// platforms, the one for this host is opened.
    ///
    /// # Errors
    /// As [`open`](Self::open); `Corrupt` if `root` has another digest than `wanted`.
    pub fn open_root(
        blobs: &dyn Blobs,
        root: &dyn BlockRead,
        wanted: Option<&Digest>,
    ) -> Result<Self> {
        let document = contents(root, "manifest")?;
        if let Some(wanted) = wanted {
            wanted.verify(&document, "manifest")?;
        }
        let outline: Outline = parse(&document, "manifest")?;
        if outline.manifests.is_some() {
            let index: Index = parse(&document, "index")?;
            return Self::selected(blobs, &select(blobs, &index, None)?);
        }
        if outline.config.is_none() {
            let reason = "unsupported manifest: it has neither a configuration nor an index";
            return Err(Error::unsupported(reason));
        }
        Self::of(Digest::of(&document), document, manifest::MEDIA_TYPE)
    }

    fn selected(blobs: &dyn Blobs, selected: &Descriptor) -> Result<Self> {
        let document = read_manifest(blobs, selected, "manifest")?;
        Self::of(selected.digest()?, document, &selected.media_type)
    }

    /// Parses a verified manifest. `media_type` is its type, unless the document says another.
    fn of(digest: Digest, document: Vec<u8>, media_type: &str) -> Result<Self> {
        let manifest: Manifest = parse(&document, "manifest")?;
        manifest.check()?;
        let media_type = match &*manifest.media_type {
            "" => media_type.to_owned(),
            media_type => media_type.to_owned(),
        };
        Ok(Self {
            digest,
            document,
            media_type,
            manifest,
        })
    }

    /// Returns the manifest as it is stored.
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// Returns the media type of the manifest.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Returns the references to the layers and to the configuration.
    pub fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        let manifest = &self.manifest;
        manifest.layers.iter().chain([&manifest.config])
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
