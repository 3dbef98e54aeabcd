//! The configurations of TLS: rustls with ring, certificates from PEM files.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, Result};
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the configuration of a server. With `client_ca`, clients need a certificate of it.
pub(crate) fn server_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("cannot set up TLS", e))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let roots = Arc::new(roots(ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                .build()
                .map_err(|e| invalid("invalid certificate authority", e).in_file(ca))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder
        .with_single_cert(certificates(certificate)?, private_key(key)?)
        .map_err(|e| invalid("invalid certificate or key", e).in_file(certificate))?;
    Ok(Arc::new(config))
}

/// Returns the configuration of a client that trusts `ca`, and has a certificate and its key if the
/// server asks for one.
pub(crate) fn client_config(
    ca: &Path,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("cannot set up TLS", e))?
        .with_root_certificates(roots(ca)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|e| invalid("invalid certificate or key", e).in_file(certificate))?,
    };
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|e| invalid("invalid certificate", e).in_file(path))?;
    }
    Ok(roots)
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

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| unreadable(e, path))
}

fn unreadable(error: pem::Error, path: &Path) -> Error {
    match error {
        pem::Error::Io(e) => Error::from(e).in_file(path),
        other => invalid("invalid PEM file", other).in_file(path),
    }
}

fn invalid(reason: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Invalid, format!("{reason}: {source}"))
}
