//! The blobs of a registry, read by ranges.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind, Result};
use diskfs_oci::Digest;
use reqwest::header::{ACCEPT_ENCODING, RANGE};
use reqwest::{Method, Response, StatusCode, Url};

use super::{Fetched, Shared, refusal};
use crate::http::FIRST_BYTES;
use crate::http::answer::{self, Part, body, check};
use crate::object::{FetchError, Fetching, Object, Opened};
use crate::retry::with_retries;
use crate::runtime;

/// The hint for registries that serve only whole blobs.
const COPY: &str =
    "copy the image first: `skopeo copy docker://NAME oci:DIR`, then `oci-layout:DIR`";

/// The address of a blob.
#[derive(Debug)]
struct Place {
    registry: Arc<Shared>,
    url: Url,
    /// The address that the registry redirected to; requests go there while it answers.
    redirected: Mutex<Option<Url>>,
}

/// A blob. Its digest names its contents, so there is only one version.
#[derive(Debug)]
struct Blob {
    place: Place,
    size_bytes: u64,
}

/// Opens the blob with this digest.
pub(super) fn open(registry: &Arc<Shared>, digest: &Digest) -> Result<Opened> {
    let place = Place {
        url: registry.url(&format!("blobs/{digest}"))?,
        registry: Arc::clone(registry),
        redirected: Mutex::default(),
    };
    let version = digest.to_string();
    runtime::wait(async move {
        let timeout = place.registry.options.open_timeout;
        let part = with_retries(timeout, || place.first()).await?;
        Ok(Opened {
            size_bytes: part.total_bytes,
            first: part.bytes,
            version: Some(version.clone()),
            strong_version: Some(version),
            object: Arc::new(Blob {
                size_bytes: part.total_bytes,
                place,
            }),
        })
    })
}

impl Place {
    /// Asks for a range; returns true if the answer is that of another address.
    async fn ask(&self, range: &Range<u64>) -> Fetched<(Response, bool)> {
        let redirected = self.locked().clone();
        let is_redirected = redirected.is_some();
        let url = redirected.unwrap_or_else(|| self.url.clone());
        let len_bytes = range.end.saturating_sub(range.start);
        let text = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let get = |url: Url| {
            let request = self.registry.request(Method::GET, url, len_bytes);
            request
                .header(RANGE, &text)
                .header(ACCEPT_ENCODING, "identity")
        };
        let response = self.registry.send(&url, get).await?;
        Ok((response, is_redirected))
    }

    async fn first(&self) -> Fetched<Part> {
        let (response, _) = self.ask(&(0..FIRST_BYTES)).await?;
        let response = self.accept(response).await?;
        let final_url = response.url().clone();
        let part = answer::first(response, FIRST_BYTES).await;
        let part = part.map_err(|error| match error {
            FetchError::Final(error) if error.kind() == ErrorKind::Unsupported => {
                Error::unsupported(error.reason().to_owned())
                    .with_hint(COPY)
                    .into()
            }
            error => error,
        })?;
        if final_url != self.url {
            *self.locked() = Some(final_url);
        }
        Ok(part)
    }

    /// Returns an answer with bytes; fails with the registry's reason otherwise.
    async fn accept(&self, response: Response) -> Fetched<Response> {
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                Ok(response)
            }
            _ => Err(refusal::of(response, &self.registry.auth).await),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Url>> {
        let redirected = self.redirected.lock();
        redirected.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blob {
    async fn fetch_range(&self, range: Range<u64>) -> Fetched<Bytes> {
        let (response, is_redirected) = self.place.ask(&range).await?;
        let status = response.status();
        if is_redirected && (status.is_client_error() || status == StatusCode::OK) {
            // Addresses that registries redirect to expire.
            *self.place.locked() = None;
            let reason = "the registry's redirection has expired";
            return Err(FetchError::passing(reason));
        }
        let response = self.place.accept(response).await?;
        if check(&response, &range)?.total_bytes != self.size_bytes {
            return Err(FetchError::changed("it has another size"));
        }
        body(response, range.end.saturating_sub(range.start)).await
    }
}

impl Object for Blob {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        Box::pin(async move { self.fetch_range(range).await })
    }
}
