//! The HTTP client: proxies as the environment names them, certificate authorities of the host.

use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client};
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
    let mut builder = Client::builder()
        .user_agent(concat!("diskfs/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        .read_timeout(options.stall_timeout)
        .pool_max_idle_per_host(options.max_requests)
        .redirect(Policy::custom(redirect))
        .referer(false)
        .http1_only();
    if let Some(bundle) = std::env::var_os("CURL_CA_BUNDLE").filter(|path| !path.is_empty()) {
        builder = builder.tls_certs_merge(certificates(Path::new(&bundle))?);
    }
    builder.build().map_err(|error| {
        let reason = format!("cannot set up HTTP: {error}");
        Error::new(ErrorKind::Invalid, reason)
    })
}

fn certificates(bundle: &Path) -> Result<Vec<Certificate>> {
    let pem = std::fs::read(bundle).map_err(|e| Error::from(e).in_file(bundle))?;
    let invalid = |e| Error::invalid(format!("invalid certificates: {e}")).in_file(bundle);
    Certificate::from_pem_bundle(&pem).map_err(invalid)
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
