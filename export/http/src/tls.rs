//! The configuration of TLS: rustls with ring, certificates from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, Result};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The files of TLS, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate of the server, with its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the server.
    pub key: PathBuf,
    /// The certificate authority whose clients may connect; `None` for any client.
    pub client_ca: Option<PathBuf>,
}

/// Reads the files of TLS.
pub(crate) fn config(files: &Tls) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("cannot set up TLS", e))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ca)? {
                let added = roots.add(certificate);
                added.map_err(|e| invalid("invalid certificate", e).in_file(ca))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| invalid("invalid certificate authority", e).in_file(ca))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| unreadable(e, &files.key))?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|e| invalid("invalid certificate or key", e).in_file(&files.certificate))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| unreadable(e, path))?;
    if found.is_empty() {
        return Err(Error::invalid("no certificate in the file").in_file(path));
    }
    Ok(found)
}

fn unreadable(error: pem::Error, path: &Path) -> Error {
    match error {
        pem::Error::Io(e) => Error::from(e).in_file(path),
        other => invalid("invalid PEM file", other).in_file(path),
    }
}

fn invalid(reason: &'static str, source: impl std::error::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("{reason}: {source}"))
}
