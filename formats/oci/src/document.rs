//! The documents of a new image.

use std::collections::BTreeMap;

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};
use serde::Serialize;

use crate::config::{self, NewConfig};
use crate::descriptor::{Descriptor, REF_NAME};
use crate::digest::Digest;
use crate::index::{self, Index};
use crate::layout::Layout;
use crate::manifest::{self, Manifest};
use crate::platform::Platform;

/// The version of the layout.
const LAYOUT_VERSION: &str = "1.0.0";

/// A JSON document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The text.
    pub bytes: Vec<u8>,
    /// The digest of the text.
    pub digest: Digest,
}

/// The layer of a new image.
#[derive(Debug, Clone)]
pub struct NewLayer {
    /// The suffix of the media type: empty, `+gzip` or `+zstd`.
    pub suffix: &'static str,
    /// The digest of the blob.
    pub digest: Digest,
    /// The size of the blob in bytes.
    pub size_bytes: u64,
    /// The digest of the decompressed layer.
    pub diff_id: Digest,
}

/// The documents of a new image of one layer.
#[derive(Debug, Clone)]
pub struct NewImage {
    /// The file `oci-layout`.
    pub marker: Document,
    /// The file `index.json`.
    pub index: Document,
    /// The manifest, a blob.
    pub manifest: Document,
    /// The configuration, a blob.
    pub config: Document,
}

impl NewImage {
    /// Makes the documents of an image that is called `tag`.
    ///
    /// # Errors
    /// None in practice: all texts are valid JSON.
    pub fn new(layer: &NewLayer, config: &NewConfig, tag: &str) -> Result<Self> {
        let marker = Document::new(&Layout {
            version: LAYOUT_VERSION.to_owned(),
        })?;
        let config_document = Document::new(&config.document(&layer.diff_id))?;
        let media_type = format!("application/vnd.oci.image.layer.v1.tar{}", layer.suffix);
        let manifest = Document::new(&Manifest {
            schema_version: 2,
            media_type: manifest::MEDIA_TYPE.to_owned(),
            config: config_document.descriptor(config::MEDIA_TYPE),
            layers: vec![Descriptor::new(
                &media_type,
                &layer.digest,
                layer.size_bytes,
            )],
        })?;
        let entry = Descriptor {
            platform: Some(Platform {
                architecture: config.architecture.clone(),
                os: "linux".to_owned(),
            }),
            annotations: Some(BTreeMap::from([(REF_NAME.to_owned(), tag.to_owned())])),
            ..manifest.descriptor(manifest::MEDIA_TYPE)
        };
        let index = Document::new(&Index {
            schema_version: 2,
            media_type: index::MEDIA_TYPE.to_owned(),
            manifests: vec![entry],
        })?;
        Ok(Self {
            marker,
            index,
            manifest,
            config: config_document,
        })
    }
}

impl Document {
    fn new(value: &impl Serialize) -> Result<Self> {
        let invalid = |error| Error::invalid(format!("cannot write a JSON document: {error}"));
        let bytes = serde_json::to_vec(value).map_err(invalid)?;
        let digest = Digest::of(&bytes);
        Ok(Self { bytes, digest })
    }

    fn descriptor(&self, media_type: &str) -> Descriptor {
        Descriptor::new(media_type, &self.digest, len_u64(self.bytes.len()))
    }
}
