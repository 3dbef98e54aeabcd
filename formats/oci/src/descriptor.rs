//! The descriptor: a reference to a blob (OCI image specification, "Content Descriptors").

use std::collections::BTreeMap;

use diskfs_block::Result;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::message::shortened;
use crate::platform::Platform;

/// The annotations with the name of an image: that of the specification, and containerd's.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// A reference to a blob.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Descriptor {
    /// The media type.
    #[serde(rename = "mediaType", default)]
    pub media_type: String,
    /// The digest as the document spells it.
    #[serde(rename = "digest")]
    pub(crate) digest_text: String,
    /// The size in bytes. Who opens the blob checks it.
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    /// Creates a reference to a blob.
    pub(crate) fn new(media_type: &str, digest: &Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest_text: digest.to_string(),
            size,
            ..Self::default()
        }
    }

    /// Returns the digest.
    ///
    /// # Errors
    /// `Corrupt` if it is invalid; `Unsupported` for an unknown algorithm.
    pub fn digest(&self) -> Result<Digest> {
        Digest::parse(&self.digest_text)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Returns true if the image has this name, or this tag.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let names = [CONTAINERD_NAME, REF_NAME].map(|key| self.annotation(key));
        names.contains(&Some(name))
    }

    /// Returns the name, or without one the digest, and the platform: for the list of an error.
    pub(crate) fn shown(&self) -> String {
        let name = self.annotation(CONTAINERD_NAME);
        let name = name.or_else(|| self.annotation(REF_NAME));
        let name = shortened(name.unwrap_or(&self.digest_text));
        match &self.platform {
            Some(platform) => format!("{name} ({platform})"),
            None => name,
        }
    }
}
