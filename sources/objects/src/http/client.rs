//! The HTTP client: proxies as the environment names them, certificate authorities of the host.

use std::path::{Path, PathBuf};

use diskfs_block::{Error, ErrorKind, Result};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, ClientBuilder};
use tokio_rustls::rustls::crypto::ring;

use crate::options::Options;

/// The maximum number of redirections of a request.
const MAX_REDIRECTS: usize = 10;

/// Creates a client.
///
/// It uses HTTP/1.1: several connections are faster than one for ranges of a large object.
pub(crate) fn new(options: &Options) -> Result<Client> {
    // Another provider may be installed already; then that one is used.
    let _ = ring::default_provider().install_default();
    let certificates = match authorities()? {
        Some((bundle, pem)) => certificates(&bundle, &pem)?,
        None => Vec::new(),
    };
    let with_host = builder(options).tls_certs_merge(certificates.clone());
    // A host without authorities can still speak to a server without TLS.
    let without_host = || builder(options).tls_certs_only(certificates).build();
    with_host
        .build()
        .or_else(|_| without_host())
        .map_err(|error| {
            let reason = format!("cannot set up HTTP: {error}");
            Error::new(ErrorKind::Invalid, reason)
        })
}

fn builder(options: &Options) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("diskfs/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        .read_timeout(options.stall_timeout)
        .pool_max_idle_per_host(options.max_requests)
        .redirect(Policy::custom(redirect))
        .referer(false)
        .http1_only()
}

/// Returns the name and the contents of `$CURL_CA_BUNDLE`: certificates of authorities besides those
/// of the host.
pub(crate) fn authorities() -> Result<Option<(PathBuf, Vec<u8>)>> {
    let bundle = std::env::var_os("CURL_CA_BUNDLE").filter(|path| !path.is_empty());
    let Some(bundle) = bundle.map(PathBuf::from) else {
        return Ok(None);
    };
    let pem = std::fs::read(&bundle).map_err(|e| Error::from(e).in_file(&bundle))?;
    Ok(Some((bundle, pem)))
}

fn certificates(bundle: &Path, pem: &[u8]) -> Result<Vec<Certificate>> {
    let invalid = |e| Error::invalid(format!("invalid certificates: {e}")).in_file(bundle);
    Certificate::from_pem_bundle(pem).map_err(invalid)
}

/// Follows redirections, but none from HTTPS to a place without encryption.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_encrypted = attempt
        .previous()
        .last()
        .is_some_and(|url| url.scheme() == "https");
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error("too many redirections");
    }
    if was_encrypted && attempt.url().scheme() == "http" {
        return attempt.error("it leads from HTTPS to HTTP");
    }
    attempt.follow()
}
