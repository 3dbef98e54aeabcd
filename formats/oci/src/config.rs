//! The configuration of an image (OCI image specification, "Image Configuration").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The media type of a configuration.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.oci.image.config.v1+json";

/// The media type of Docker's configuration.
const DOCKER_MEDIA_TYPE: &str = "application/vnd.docker.container.image.v1+json";

/// Returns true for the configuration of an image with layers; artifacts have others.
pub(crate) fn is_config(media_type: &str) -> bool {
    [MEDIA_TYPE, DOCKER_MEDIA_TYPE].contains(&media_type)
}

/// The configuration as far as it matters for a disk: it must be one.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    /// The digests of the decompressed layers. They are not verified.
    pub(crate) rootfs: RootFs,
}

/// The root filesystem of an image.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    pub(crate) diff_ids: Vec<String>,
}

/// The settings of a new image's configuration.
#[derive(Debug, Clone, Default)]
pub struct NewConfig {
    /// The architecture: `amd64`, `arm64`.
    pub architecture: String,
    /// The time of creation (RFC 3339).
    pub created: String,
    /// The program that makes the image, for its history.
    pub created_by: String,
    /// The environment variables, `NAME=VALUE`.
    pub env: Vec<String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

impl NewConfig {
    /// Returns the document, with the digest of the decompressed layer.
    pub(crate) fn document<'a>(&'a self, diff_id: &Digest) -> impl Serialize + 'a {
        ConfigDocument {
            created: &self.created,
            architecture: &self.architecture,
            os: "linux",
            config: ProcessDocument {
                env: &self.env,
                labels: &self.labels,
            },
            rootfs: RootFs {
                kind: "layers".to_owned(),
                diff_ids: vec![diff_id.to_string()],
            },
            history: [HistoryDocument {
                created: &self.created,
                created_by: &self.created_by,
            }],
        }
    }
}

#[derive(Debug, Serialize)]
struct ConfigDocument<'a> {
    created: &'a str,
    architecture: &'a str,
    os: &'a str,
    config: ProcessDocument<'a>,
    rootfs: RootFs,
    history: [HistoryDocument<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ProcessDocument<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    env: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct HistoryDocument<'a> {
    created: &'a str,
    created_by: &'a str,
}
