//! The images that commands open by NBD.

use std::sync::Arc;

use diskfs::block::{BlockRead, BlockWrite};
use diskfs::nbd::client::{Nbd, Options, Uri};
use diskfs::{Error, ErrorKind, RemoteImages, Result};

/// Opens exports of NBD servers.
#[derive(Debug)]
pub(crate) struct NbdImages;

fn connect(uri: &str) -> Result<Nbd> {
    let parsed: Uri = uri.parse()?;
    Ok(Nbd::connect(&parsed, Options::default())?)
}

impl RemoteImages for NbdImages {
    fn open(&self, uri: &str) -> Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(connect(uri)?))
    }

    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>> {
        let export = connect(uri)?;
        if !export.is_writable() {
            let reason = "the server exports this disk read-only";
            return Err(Error::new(ErrorKind::ReadOnly, reason));
        }
        Ok(Arc::new(export))
    }
}
