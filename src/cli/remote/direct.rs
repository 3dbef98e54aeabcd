//! Images on other machines, opened by this process.

#[cfg(feature = "objects")]
use std::path::PathBuf;
use std::sync::Arc;

use diskfs::block::{BlockWrite, Error, ErrorKind, Result};
use diskfs::nbd::client::{Nbd, Options as NbdOptions, Uri};
#[cfg(feature = "objects")]
use diskfs::objects::{Device, DiskCache, Options};
use diskfs::{RemoteImage, RemoteImages};
use diskfs_oci::RegistryName;

#[cfg(feature = "objects")]
use crate::cli::config::Config;

/// Opens images on other machines in this process.
#[derive(Debug)]
pub(super) struct DirectImages;

fn connect(uri: &str) -> Result<Nbd> {
    let parsed: Uri = uri.parse()?;
    Nbd::connect(&parsed, NbdOptions::default())
}

impl RemoteImages for DirectImages {
    fn open(&self, uri: &str) -> Result<RemoteImage> {
        if Uri::is_uri(uri) {
            return Ok(RemoteImage {
                device: Arc::new(connect(uri)?),
                version: None,
            });
        }
        open_object(uri)
    }

    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>> {
        if Uri::is_uri(uri) {
            return writable(connect(uri)?);
        }
        let reason = if RegistryName::is_uri(uri) {
            "images of registries are read-only"
        } else {
            "images of HTTP and object stores are read-only"
        };
        let error = Error::new(ErrorKind::ReadOnly, reason);
        Err(error.with_hint("copy it to a file first: `diskfs convert URI FILE`"))
    }
}

/// Opens an object of an HTTP server or of a store, or the disk of an OCI image.
#[cfg(feature = "objects")]
fn open_object(uri: &str) -> Result<RemoteImage> {
    if RegistryName::is_uri(uri) {
        return Ok(RemoteImage {
            device: super::registry::open_direct(uri)?,
            version: None,
        });
    }
    let options = options()?;
    let device = Device::open(uri, &super::shown(uri), &options)?;
    Ok(RemoteImage {
        version: device.version().map(Into::into),
        device: Arc::new(device),
    })
}

/// Returns the options for servers that the configuration sets.
#[cfg(feature = "objects")]
pub(super) fn options() -> Result<Options> {
    let config = Config::load().map_err(|error| {
        let reason = format!("cannot read the configuration: {error}");
        Error::new(ErrorKind::Invalid, reason)
    })?;
    let cache = config.cache;
    let open = |directory: PathBuf| DiskCache::open(&directory, cache.size);
    let defaults = Options::default();
    Ok(Options {
        disk_cache: cache.directory.map(open).transpose()?,
        retry_timeout: config.remote.retry.unwrap_or(defaults.retry_timeout),
        ..defaults
    })
}

#[cfg(not(feature = "objects"))]
fn open_object(_: &str) -> Result<RemoteImage> {
    let reason = "this program was built without HTTP and object stores";
    Err(Error::new(ErrorKind::Unsupported, reason))
}

/// Returns an export as a device for writing, if its server allows that.
pub(super) fn writable(export: Nbd) -> Result<Arc<dyn BlockWrite>> {
    if !export.is_writable() {
        let reason = "the server exports this disk read-only";
        return Err(Error::new(ErrorKind::ReadOnly, reason));
    }
    Ok(Arc::new(export))
}
