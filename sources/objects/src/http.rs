//! Objects of HTTP servers that serve ranges (RFC 9110).

pub(crate) mod answer;
pub(crate) mod client;
mod content_range;
mod credentials;
pub(crate) mod netrc;
mod version;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{Error, Result};
use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, RANGE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};

use crate::object::{FetchError, Fetching, Object, Opened};
use crate::options::Options;
use crate::retry::with_retries;
use crate::runtime;
use answer::{Part, body, check, failure};
use credentials::Credentials;
use version::Version;

/// The number of bytes of the first request, which finds out the size.
pub(crate) const FIRST_BYTES: u64 = 128 << 10;

/// The slowest server that is waited for, in bytes per second.
pub(crate) const SLOWEST: u64 = 16 << 10;

/// The address of an object, and what requests for it need.
#[derive(Debug)]
struct Place {
    client: Client,
    url: Url,
    /// The address that the server redirected to; requests go there while it answers.
    redirected: Mutex<Option<Url>>,
    credentials: Credentials,
    stall_timeout: Duration,
}

/// An object of an HTTP server, in one version.
#[derive(Debug)]
struct HttpObject {
    place: Arc<Place>,
    version: Version,
    size_bytes: u64,
}

/// Opens the object of a URL.
pub(crate) fn open(uri: &str, options: &Options) -> Result<Opened> {
    let url: Url = uri
        .parse()
        .map_err(|e| Error::invalid(format!("invalid URL: {e}")))?;
    credentials::refuse_in_url(&url)?;
    let place = Arc::new(Place {
        client: client::new(options)?,
        credentials: Credentials::of_environment(&url)?,
        url,
        redirected: Mutex::default(),
        stall_timeout: options.stall_timeout,
    });
    let timeout = options.open_timeout;
    runtime::wait(async move {
        let first = || {
            let place = Arc::clone(&place);
            async move { place.first().await }
        };
        let (part, version) = with_retries(timeout, first).await?;
        if !version.is_known() {
            tracing::warn!(
                "the server names no version of the image: a change while it is read may stay unnoticed"
            );
        }
        Ok(Opened {
            size_bytes: part.total_bytes,
            version: version.name(),
            first: part.bytes,
            strong_version: version.strong(),
            object: Arc::new(HttpObject {
                size_bytes: part.total_bytes,
                version,
                place,
            }),
        })
    })
}

impl Place {
    /// Returns a request for a range.
    fn request(&self, range: &Range<u64>) -> (RequestBuilder, bool) {
        let redirected = self.redirected();
        let is_redirected = redirected.is_some();
        let url = redirected.unwrap_or_else(|| self.url.clone());
        let len_bytes = range.end.saturating_sub(range.start);
        let slow = Duration::from_secs(len_bytes.checked_div(SLOWEST).unwrap_or(0));
        let last = range.end.saturating_sub(1);
        let request = self
            .client
            .get(url.clone())
            .header(RANGE, format!("bytes={}-{last}", range.start))
            .header(ACCEPT_ENCODING, "identity")
            .timeout(self.stall_timeout.saturating_add(slow));
        (self.credentials.add_to(request, &url), is_redirected)
    }

    /// Asks for the first bytes. Returns them with the version of the object.
    async fn first(&self) -> std::result::Result<(Part, Version), FetchError> {
        let range = 0..FIRST_BYTES;
        let (request, _) = self.request(&range);
        let response = request.send().await.map_err(failure)?;
        let version = Version::of(response.headers());
        let final_url = response.url().clone();
        let part = answer::first(response, FIRST_BYTES).await?;
        if final_url != self.url {
            *self.locked() = Some(final_url);
        }
        Ok((part, version))
    }

    fn redirected(&self) -> Option<Url> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Option<Url>> {
        self.redirected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpObject {
    async fn fetch_range(&self, range: Range<u64>) -> std::result::Result<Bytes, FetchError> {
        let (mut request, is_redirected) = self.place.request(&range);
        if let Some(validator) = self.version.validator() {
            request = request.header(IF_RANGE, validator);
        }
        let response = request.send().await.map_err(failure)?;
        let status = response.status();
        if is_redirected && (status.is_client_error() || status == StatusCode::OK) {
            // Addresses that servers redirect to expire.
            *self.place.locked() = None;
            return Err(FetchError::passing("the server's redirection has expired"));
        }
        let found = check(&response, &range)?;
        if found.total_bytes != self.size_bytes {
            return Err(FetchError::changed("it has another size"));
        }
        if !self.version.is_same(response.headers()) {
            return Err(FetchError::changed("it has another version"));
        }
        body(response, range.end.saturating_sub(range.start)).await
    }
}

impl Object for HttpObject {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        Box::pin(async move { self.fetch_range(range).await })
    }
}
