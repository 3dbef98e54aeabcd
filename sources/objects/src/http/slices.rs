//! Slices: parts of an image that `diskfs serve images` sends compressed, as resources of their own
//! (`?bytes=FIRST-LAST`). `export/http/DESIGN.md` describes them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use diskfs_block::len_of;
use reqwest::header::{CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url};

use super::answer::{body, failure, more_bytes, refusal, short};
use super::content_range::ContentRange;
use super::unpacker::Unpacker;
use super::version::Version;
use crate::object::FetchError;

/// The header by which a server says that it has slices: the length of the longest one.
const LIMIT: &str = "diskfs-slice-limit";

/// The header of a slice, in the form of `Content-Range`.
const SLICE: &str = "diskfs-slice";

/// The slices of an object, in one version.
#[derive(Debug)]
pub(super) struct Slices {
    limit_bytes: u64,
    /// The `ETag` of what is sent as it is, and of what is compressed.
    plain_etag: String,
    packed_etag: String,
    /// True after an answer that was no slice: a proxy may not know them.
    is_lost: AtomicBool,
}

impl Slices {
    /// Returns the slices of an object, if the first answer says that there are some.
    pub(super) fn announced(headers: &HeaderMap, version: &Version) -> Option<Self> {
        let limit_bytes = headers.get(LIMIT)?.to_str().ok()?.parse().ok()?;
        let plain_etag = version.strong()?;
        let packed_etag = format!("{}-zstd\"", plain_etag.strip_suffix('"')?);
        Some(Self {
            limit_bytes,
            plain_etag,
            packed_etag,
            is_lost: AtomicBool::new(false),
        })
    }

    /// Returns the address of a slice, or `None` if a range must be asked for instead. An address
    /// with a query may be signed.
    pub(super) fn url(&self, url: &Url, range: &Range<u64>) -> Option<Url> {
        let is_short = range.end.saturating_sub(range.start) <= self.limit_bytes;
        if !is_short || url.query().is_some() || self.is_lost.load(Ordering::Relaxed) {
            return None;
        }
        let mut url = url.clone();
        let last = range.end.saturating_sub(1);
        url.set_query(Some(&format!("bytes={}-{last}", range.start)));
        Some(url)
    }

    /// Returns the value of `If-Match`: this version in each of its codings.
    pub(super) fn condition(&self) -> String {
        format!("{}, {}", self.plain_etag, self.packed_etag)
    }

    /// Reads the answer to a request for a slice. Returns `None` if it is no slice; no other ones are
    /// asked for then.
    pub(super) async fn read(
        &self,
        response: Response,
        range: &Range<u64>,
        size_bytes: u64,
    ) -> Result<Option<Bytes>, FetchError> {
        let found = match response.status() {
            StatusCode::OK => slice(response.headers()),
            StatusCode::PRECONDITION_FAILED => {
                return Err(FetchError::changed("it has another version"));
            }
            _ => match refusal(&response) {
                passing @ FetchError::Passing { .. } => return Err(passing),
                FetchError::Final(_) => None,
            },
        };
        let asked = (range.start, range.end.saturating_sub(1));
        let coding = response
            .headers()
            .get(CONTENT_ENCODING)
            .map(HeaderValue::as_bytes);
        let is_packed = coding == Some(b"zstd");
        let Some(found) = found.filter(|found| {
            found.bytes == Some(asked) && (is_packed || matches!(coding, None | Some(b"identity")))
        }) else {
            tracing::debug!("no slices any more: {}", response.status());
            self.is_lost.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        if found.total_bytes != Some(size_bytes) {
            return Err(FetchError::changed("it has another size"));
        }
        let etag = response.headers().get(ETAG).map(HeaderValue::as_bytes);
        let etags = [&self.plain_etag, &self.packed_etag];
        if !etags.iter().any(|it| etag == Some(it.as_bytes())) {
            return Err(FetchError::changed("it has another version"));
        }
        let len_bytes = range.end.saturating_sub(range.start);
        if is_packed {
            return unpacked(response, len_bytes).await.map(Some);
        }
        body(response, len_bytes).await.map(Some)
    }
}

/// Returns the slice that an answer has.
fn slice(headers: &HeaderMap) -> Option<ContentRange> {
    ContentRange::parse(headers.get(SLICE)?.to_str().ok()?)
}

/// Reads a compressed body, which must have `len_bytes` afterwards.
async fn unpacked(mut response: Response, len_bytes: u64) -> Result<Bytes, FetchError> {
    let mut unpacker = Unpacker::new(len_bytes)?;
    let most = Unpacker::most_packed_bytes(len_bytes);
    let mut packed_bytes = 0_u64;
    while let Some(part) = response.chunk().await.map_err(failure)? {
        packed_bytes = packed_bytes.saturating_add(len_of(&part));
        if packed_bytes > most {
            return Err(more_bytes());
        }
        unpacker.add(&part)?;
    }
    unpacker.finish().map_err(|done| short(done, len_bytes))
}
