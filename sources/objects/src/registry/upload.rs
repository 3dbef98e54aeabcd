//! Uploads of blobs (OCI distribution specification, "Pushing Blobs").

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind, Result, len_of};
use diskfs_oci::Digest;
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, LOCATION, RANGE};
use reqwest::{Method, RequestBuilder, StatusCode, Url};

use super::{Fetched, Registry, Shared, violation};
use crate::object::FetchError;
use crate::retry::with_retries;
use crate::runtime;

/// The length of a chunk. Smaller blobs are uploaded as a whole.
const CHUNK_BYTES: u64 = 16 << 20;
/// The longest chunk that a registry can ask for.
const CHUNK_MAX_BYTES: u64 = 128 << 20;
/// The header with the length that all chunks but the last must have.
const CHUNK_MIN_LENGTH: &str = "oci-chunk-min-length";

/// The state of an upload, as the registry told it last.
#[derive(Debug)]
struct Upload {
    /// The URL of the next request.
    location: Url,
    /// The number of bytes that the registry has.
    stored_bytes: u64,
    /// True if a request failed, so that the registry must be asked for its state.
    is_unknown: bool,
}

impl Registry {
    /// Uploads a blob of this size, in one piece or in chunks. Chunks are repeated if the registry
    /// continues an upload; otherwise the caller must begin again.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and of reading.
    pub fn upload(&self, digest: &Digest, size_bytes: u64, contents: &mut dyn Read) -> Result<()> {
        let shared = &self.shared;
        let (upload, chunk_bytes) = begin(shared)?;
        let upload = Arc::new(Mutex::new(upload));
        if size_bytes <= chunk_bytes {
            let whole = read(contents, size_bytes)?;
            return finish(shared, &upload, digest, whole);
        }
        let mut left = size_bytes;
        while left > 0 {
            let chunk = read(contents, left.min(chunk_bytes))?;
            left = left.saturating_sub(len_of(&chunk));
            send_chunk(shared, &upload, chunk)?;
        }
        finish(shared, &upload, digest, Bytes::new())
    }
}

/// Reads the next bytes of a blob.
fn read(contents: &mut dyn Read, len_bytes: u64) -> Result<Bytes> {
    let mut bytes = Vec::new();
    contents.take(len_bytes).read_to_end(&mut bytes)?;
    if len_of(&bytes) < len_bytes {
        return Err(Error::corrupt(
            "the blob is shorter than its descriptor says",
        ));
    }
    Ok(bytes.into())
}

/// Begins an upload. Returns it with the length of its chunks.
fn begin(shared: &Arc<Shared>) -> Result<(Upload, u64)> {
    let shared = Arc::clone(shared);
    let url = shared.url("blobs/uploads/")?;
    runtime::wait(async move {
        let attempt = || async {
            let post = |url: Url| shared.request(Method::POST, url, 0).body(Bytes::new());
            let response = shared.send(&url, post).await?;
            let response = shared.accept(response, &[StatusCode::ACCEPTED]).await?;
            let least = response.headers().get(CHUNK_MIN_LENGTH);
            let least = least.and_then(|value| value.to_str().ok()?.parse().ok());
            let chunk_bytes = CHUNK_BYTES.max(least.unwrap_or(0));
            if chunk_bytes > CHUNK_MAX_BYTES {
                let reason =
                    format!("unsupported registry: it wants chunks of {chunk_bytes} bytes");
                return Err(Error::unsupported(reason).into());
            }
            let location = next(&shared, &url, response.headers())?;
            let upload = Upload {
                location: location.ok_or_else(|| violation("the registry began no upload"))?,
                stored_bytes: 0,
                is_unknown: false,
            };
            Ok((upload, chunk_bytes))
        };
        with_retries(shared.options.retry_timeout, attempt).await
    })
}

/// Sends a chunk, and the rest of it again if that fails.
fn send_chunk(shared: &Arc<Shared>, upload: &Arc<Mutex<Upload>>, chunk: Bytes) -> Result<()> {
    let (shared, upload) = (Arc::clone(shared), Arc::clone(upload));
    runtime::wait(async move {
        let start = locked(&upload).stored_bytes;
        let end = start.saturating_add(len_of(&chunk));
        let attempt = || async {
            if locked(&upload).is_unknown {
                ask(&shared, &upload).await?;
            }
            let (location, stored) = {
                let upload = locked(&upload);
                (upload.location.clone(), upload.stored_bytes)
            };
            let sent = stored
                .checked_sub(start)
                .and_then(|at| usize::try_from(at).ok());
            let rest = sent
                .filter(|at| *at <= chunk.len())
                .map(|at| chunk.slice(at..));
            let rest = rest.ok_or_else(|| violation("the registry lost a part of the upload"))?;
            if rest.is_empty() {
                return Ok(());
            }
            locked(&upload).is_unknown = true;
            let range = format!("{stored}-{}", end.saturating_sub(1));
            let patch = |url: Url| {
                let request = shared.request(Method::PATCH, url, len_of(&rest));
                octets(request.header(CONTENT_RANGE, &range), rest.clone())
            };
            let response = shared.send(&location, patch).await?;
            let expected = [StatusCode::ACCEPTED, StatusCode::NO_CONTENT];
            let response = shared.accept(response, &expected).await?;
            let next = next(&shared, &location, response.headers())?;
            let mut upload = locked(&upload);
            upload.location = next.unwrap_or(location);
            upload.stored_bytes = end;
            upload.is_unknown = false;
            Ok(())
        };
        with_retries(shared.options.retry_timeout, attempt).await
    })
}

/// Asks the registry how much of an upload it has.
async fn ask(shared: &Shared, upload: &Mutex<Upload>) -> Fetched<()> {
    let location = locked(upload).location.clone();
    let get = |url: Url| shared.request(Method::GET, url, 0);
    let response = shared.send(&location, get).await?;
    let expected = [StatusCode::NO_CONTENT, StatusCode::ACCEPTED, StatusCode::OK];
    let response = shared.accept(response, &expected).await?;
    let headers = response.headers();
    // `0-N`; without bytes some say `0-0`, and some nothing.
    let last = headers.get(RANGE).and_then(|value| {
        let (_, last) = value.to_str().ok()?.rsplit_once('-')?;
        last.parse::<u64>().ok()
    });
    let next = next(shared, &location, headers)?;
    let mut upload = locked(upload);
    upload.location = next.unwrap_or(location);
    upload.stored_bytes = match last {
        None | Some(0) => 0,
        Some(last) => last.saturating_add(1),
    };
    upload.is_unknown = false;
    Ok(())
}

/// Completes an upload with its last bytes.
fn finish(
    shared: &Arc<Shared>,
    upload: &Mutex<Upload>,
    digest: &Digest,
    last: Bytes,
) -> Result<()> {
    let shared = Arc::clone(shared);
    let mut url = locked(upload).location.clone();
    url.query_pairs_mut()
        .append_pair("digest", &digest.to_string());
    runtime::wait(async move {
        let attempt = || async {
            let put = |url: Url| {
                let request = shared.request(Method::PUT, url, len_of(&last));
                octets(request, last.clone())
            };
            let response = shared.send(&url, put).await?;
            let expected = [StatusCode::CREATED, StatusCode::NO_CONTENT];
            shared.accept(response, &expected).await
        };
        // The upload is gone after a failure: the caller begins again.
        with_retries(Duration::ZERO, attempt).await?;
        Ok(())
    })
}

/// Adds bytes to a request.
fn octets(request: RequestBuilder, bytes: Bytes) -> RequestBuilder {
    let request = request.header(CONTENT_TYPE, "application/octet-stream");
    request.body(bytes)
}

/// Returns the URL of the next request that an answer names.
fn next(shared: &Shared, url: &Url, headers: &HeaderMap) -> Fetched<Option<Url>> {
    let Some(location) = headers.get(LOCATION) else {
        return Ok(None);
    };
    let location = location.to_str().ok().and_then(|text| url.join(text).ok());
    let is_allowed = |next: &Url| match next.scheme() {
        "https" => true,
        "http" => shared.base.scheme() == "http",
        _ => false,
    };
    let refused = || {
        let reason = "the registry's address for the upload is refused: it is not one with TLS";
        FetchError::from(Error::new(ErrorKind::Denied, reason))
    };
    location.filter(is_allowed).map(Some).ok_or_else(refused)
}

fn locked(upload: &Mutex<Upload>) -> MutexGuard<'_, Upload> {
    upload.lock().unwrap_or_else(PoisonError::into_inner)
}
