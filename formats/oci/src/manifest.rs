//! The manifest: the configuration and the layers of one image (OCI image specification, "Image
//! Manifest").

use diskfs_block::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::descriptor::Descriptor;
use crate::message::shortened;

/// The media type of a manifest.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of Docker's manifest.
const DOCKER_MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// The limit on layers; Docker allows 127.
const MAX_LAYERS: usize = 1024;

/// The media types of layers that are tar archives, without the suffixes of compressions.
const LAYER_TYPES: [&str; 4] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];

/// The manifest of one image.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    #[serde(default)]
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    #[serde(default)]
    pub(crate) layers: Vec<Descriptor>,
}

impl Manifest {
    /// Refuses too many layers.
    pub(crate) fn check(&self) -> Result<()> {
        let layers = self.layers.len();
        if layers <= MAX_LAYERS {
            return Ok(());
        }
        let reason = format!("unsupported image of {layers} layers, at most {MAX_LAYERS}");
        Err(Error::unsupported(reason))
    }
}

/// Returns true for the media types of manifests.
pub(crate) fn is_manifest(media_type: &str) -> bool {
    [MEDIA_TYPE, DOCKER_MEDIA_TYPE].contains(&media_type)
}

/// Refuses a layer that is not a tar archive. Its compression is recognised by its first bytes.
pub(crate) fn check_layer(layer: &Descriptor) -> Result<()> {
    let mut types = LAYER_TYPES.iter();
    let suffix = types.find_map(|known| layer.media_type.strip_prefix(known));
    if matches!(suffix, Some("" | "+gzip" | "+zstd" | ".gzip" | ".zstd")) {
        return Ok(());
    }
    let media_type = shortened(&layer.media_type);
    let reason = format!("unsupported layer of the type `{media_type}`");
    Err(Error::unsupported(reason))
}
