//! Objects of HTTP servers that serve ranges (RFC 9110).

pub(crate) mod answer;
pub(crate) mod client;
mod content_range;
mod credentials;
pub(crate) mod netrc;
mod slices;
mod unpacker;
mod version;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{Error, Result};
use reqwest::header::{ACCEPT_ENCODING, IF_MATCH, IF_RANGE, RANGE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};

use crate::object::{FetchError, Fetching, Object, Opened};
use crate::options::Options;
use crate::retry::with_retries;
use crate::runtime;
use answer::{Part, body, check, failure};
use credentials::Credentials;
use slices::Slices;
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
    slices: Option<Slices>,
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
        let (part, version, slices) = with_retries(timeout, first).await?;
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
                slices,
                place,
            }),
        })
    })
}

impl Place {
    /// Returns the address that requests go to, and true if the server redirected there.
    fn address(&self) -> (Url, bool) {
        match self.redirected() {
            Some(url) => (url, true),
            None => (self.url.clone(), false),
        }
    }

    /// Returns a request that is answered by `len_bytes`.
    fn request(&self, url: &Url, len_bytes: u64) -> RequestBuilder {
        let slow = Duration::from_secs(len_bytes.checked_div(SLOWEST).unwrap_or(0));
        let request = self
            .client
            .get(url.clone())
            .timeout(self.stall_timeout.saturating_add(slow));
        self.credentials.add_to(request, url)
    }

    /// Returns a request for a range.
    fn range_request(&self, url: &Url, range: &Range<u64>) -> RequestBuilder {
        let last = range.end.saturating_sub(1);
        self.request(url, range.end.saturating_sub(range.start))
            .header(RANGE, format!("bytes={}-{last}", range.start))
            .header(ACCEPT_ENCODING, "identity")
    }

    /// Asks for the first bytes. Returns them with the version of the object, and with its slices.
    async fn first(&self) -> std::result::Result<(Part, Version, Option<Slices>), FetchError> {
        let (url, _) = self.address();
        let request = self.range_request(&url, &(0..FIRST_BYTES));
        let response = request.send().await.map_err(failure)?;
        let version = Version::of(response.headers());
        let slices = Slices::announced(response.headers(), &version);
        let final_url = response.url().clone();
        let part = answer::first(response, FIRST_BYTES).await?;
        if final_url != self.url {
            *self.locked() = Some(final_url);
        }
        Ok((part, version, slices))
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
    /// Fetches a slice. Returns `None` if the server has none for this range.
    async fn fetch_slice(
        &self,
        range: &Range<u64>,
    ) -> std::result::Result<Option<Bytes>, FetchError> {
        let (url, _) = self.place.address();
        let slices = self.slices.as_ref();
        let Some((slices, url)) = slices.and_then(|it| Some((it, it.url(&url, range)?))) else {
            return Ok(None);
        };
        let request = self
            .place
            .request(&url, range.end.saturating_sub(range.start))
            .header(IF_MATCH, slices.condition())
            .header(ACCEPT_ENCODING, "zstd");
        let response = request.send().await.map_err(failure)?;
        slices.read(response, range, self.size_bytes).await
    }

    async fn fetch_range(&self, range: Range<u64>) -> std::result::Result<Bytes, FetchError> {
        if let Some(bytes) = self.fetch_slice(&range).await? {
            return Ok(bytes);
        }
        let (url, is_redirected) = self.place.address();
        let mut request = self.place.range_request(&url, &range);
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
