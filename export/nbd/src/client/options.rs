//! The options of a client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{Error, Result};
use tokio_rustls::rustls::ClientConfig;

use super::uri::Uri;
use crate::tls;

/// The certificates of a client.
#[derive(Debug, Clone)]
pub struct Tls(pub(super) Arc<ClientConfig>);

impl Tls {
    /// Trusts the servers of the certificate authority `ca`. Servers that ask for a certificate get
    /// that of `identity`: the files of a certificate and of its key. All files are PEM.
    ///
    /// # Errors
    /// [`Invalid`](diskfs_block::ErrorKind::Invalid) if a file is not what it should be; the errors
    /// of reading the files.
    pub fn new(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Self> {
        Ok(Self(tls::client_config(ca, identity)?))
    }

    /// Reads the certificates of a directory, as libnbd and QEMU name them.
    fn of_directory(directory: &Path) -> Result<Self> {
        let certificate = directory.join("client-cert.pem");
        let key = directory.join("client-key.pem");
        let identity = certificate.exists().then_some((&*certificate, &*key));
        Self::new(&directory.join("ca-cert.pem"), identity)
    }
}

/// The options of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// The certificates, if the URI does not name them.
    pub tls: Option<Tls>,
    /// The maximum number of connections, if the server allows several.
    pub max_connections: usize,
    /// The time that a connection has until the export is open.
    pub connect_timeout: Duration,
    /// The time that a request has until its answer, with all its retries.
    pub request_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: None,
            max_connections: 4,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Returns the certificates for a URI, or `None` if the connection is not encrypted.
    pub(super) fn tls(&self, uri: &Uri) -> Result<Option<Tls>> {
        if !uri.is_encrypted {
            return Ok(None);
        }
        if let Some(directory) = &uri.tls_certificates {
            return Tls::of_directory(directory).map(Some);
        }
        match &self.tls {
            Some(tls) => Ok(Some(tls.clone())),
            None => Err(Error::invalid("missing certificate authority for TLS")
                .with_hint("add `?tls-certificates=DIR` with its file `ca-cert.pem`")),
        }
    }
}
