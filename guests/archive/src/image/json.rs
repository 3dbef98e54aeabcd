//! The JSON documents of a layout (OCI image specification, "Content Descriptors", "Image Index",
//! "Image Manifest").

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use diskfs_disk::{Error, ErrorKind, Result};

use super::platform::Platform;

/// A reference to a blob.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Descriptor {
    #[serde(rename = "mediaType", default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) platform: Option<Platform>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// The marker of a layout.
#[derive(Debug, Deserialize)]
pub(super) struct Layout {
    #[serde(rename = "imageLayoutVersion")]
    pub(super) version: String,
}

/// An index of manifests, which may contain further indexes.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub(super) manifests: Vec<Descriptor>,
}

/// The manifest of an image for one platform.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) config: Descriptor,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

impl Descriptor {
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }
}

/// Parses a document. The parser limits its depth, and the store its size.
///
/// # Errors
/// `Corrupt`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = format!("invalid {what}: {error}");
        Error::new(ErrorKind::Corrupt, reason)
    })
}
