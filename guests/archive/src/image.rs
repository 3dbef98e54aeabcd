//! Container images: OCI image layouts and archives of `docker save`, as directories or as archives.
//!
//! Specifications: github.com/opencontainers/image-spec (`image-layout.md`, `image-index.md`,
//! `manifest.md`, `config.md`), and Docker's image specification v1.2 for `manifest.json`.

mod config;
mod docker;
mod json;
mod oci;
mod platform;
mod selection;
mod store;

use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};

use crate::digest::Digest;
use crate::layer::Layer;
use store::Store;

pub use config::{Config, Process};
pub use platform::Platform;
pub use selection::Selection;

/// A container image: its layers and its configuration.
#[derive(Debug)]
pub struct Image {
    name: Option<String>,
    manifest: Option<Digest>,
    config: Config,
    layers: Vec<Layer>,
}

impl Image {
    /// Opens the image in an OCI image layout or in an archive of `docker save`: a directory, or a
    /// tar archive, plain or compressed. A compressed archive, or a pipe, is stored in an unnamed
    /// temporary file of at most `limit_bytes`.
    ///
    /// Reads only the manifests and the configuration; their digests are verified. Those of the
    /// layers are verified while the layers are read.
    ///
    /// # Errors
    /// `Ambiguous` if several images match, with a list of them; `NotFound` if none does, with a
    /// list of all; `Unsupported` for an unknown media type, an encrypted layer, or a layer that
    /// the layout does not contain; `Corrupt` for a wrong size or digest, or invalid JSON;
    /// `Invalid` if there is no image at this path; `Io`.
    pub fn open(path: &Path, selection: &Selection, limit_bytes: u64) -> Result<Self> {
        let image = Self::detect(path, selection, limit_bytes)?;
        image.ok_or_else(|| {
            let reason = "not a container image: missing oci-layout and manifest.json";
            let error = Error::new(ErrorKind::Invalid, reason).in_file(path);
            error.with_hint("create one with `skopeo copy`, `podman save` or `docker save`")
        })
    }

    /// Opens the image as [`open`](Self::open) does; returns `None` if there is neither an OCI
    /// image layout nor an archive of `docker save` at this path, but for example a tar archive of
    /// files.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn detect(path: &Path, selection: &Selection, limit_bytes: u64) -> Result<Option<Self>> {
        let image = Store::open(path, limit_bytes).and_then(|store| {
            let Some(store) = store else {
                return Ok(None);
            };
            let has_docker = store.has(docker::MANIFEST)?;
            if store.has(oci::LAYOUT)? {
                return match oci::open(&store, selection) {
                    // Docker's names of images are only in its own manifest.
                    Err(error) if error.kind() == ErrorKind::NotFound && has_docker => {
                        docker::open(&store, selection).map_err(|_| error)
                    }
                    image => image,
                }
                .map(Some);
            }
            if has_docker {
                return docker::open(&store, selection).map(Some);
            }
            Ok(None)
        });
        image.map_err(|error| error.in_file(path))
    }

    /// Returns the name by which the layout knows the image: a tag, or a name with a tag.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the digest of the manifest; archives of old versions of Docker don't have it.
    pub fn manifest(&self) -> Option<&Digest> {
        self.manifest.as_ref()
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the layers, the lowest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
}
