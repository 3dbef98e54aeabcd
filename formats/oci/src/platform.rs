//! The platform of an image, with the names of Go.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::message::shortened;

/// The platform of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Platform {
    /// The architecture: `amd64`, `arm64`.
    #[serde(default)]
    pub(crate) architecture: String,
    /// The operating system: `linux`.
    #[serde(default)]
    pub(crate) os: String,
}

impl Platform {
    /// Returns true for Linux on the architecture of this host.
    pub(crate) fn is_host(&self) -> bool {
        self.os == "linux" && self.architecture == host_architecture()
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}/{}", self.os, self.architecture);
        f.write_str(&shortened(&text))
    }
}

/// Returns the architecture of this host, as images name it: `amd64`, `arm64`.
pub fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "loongarch64" => "loong64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        other => other,
    }
}
