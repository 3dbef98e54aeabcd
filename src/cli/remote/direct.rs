//! Images on other machines, opened by this process.

use std::sync::Arc;

use diskfs::block::{BlockRead, BlockWrite};
use diskfs::nbd::client::{Nbd, Options, Uri};
use diskfs::{Error, ErrorKind, RemoteImages, Result};

/// Opens images on other machines in this process.
#[derive(Debug)]
pub(super) struct DirectImages;

fn connect(uri: &str) -> Result<Nbd> {
    let parsed: Uri = uri.parse()?;
    Ok(Nbd::connect(&parsed, Options::default())?)
}

impl RemoteImages for DirectImages {
    fn open(&self, uri: &str) -> Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(connect(uri)?))
    }

    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>> {
        writable(connect(uri)?)
    }
}

/// Returns an export as a device for writing, if its server allows that.
pub(super) fn writable(export: Nbd) -> Result<Arc<dyn BlockWrite>> {
    if !export.is_writable() {
        let reason = "the server exports this disk read-only";
        return Err(Error::new(ErrorKind::ReadOnly, reason));
    }
    Ok(Arc::new(export))
}
