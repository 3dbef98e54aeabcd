//! The index: a list of manifests (OCI image specification, "Image Index").

use serde::{Deserialize, Serialize};

use crate::descriptor::Descriptor;

/// The media type of an index.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// The media type of Docker's index.
const DOCKER_MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// An index of manifests, which may contain further indexes.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    #[serde(default)]
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default)]
    pub(crate) manifests: Vec<Descriptor>,
}

/// Returns true for the media types of indexes.
pub(crate) fn is_index(media_type: &str) -> bool {
    [MEDIA_TYPE, DOCKER_MEDIA_TYPE].contains(&media_type)
}
