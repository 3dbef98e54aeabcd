//! Slices: parts of an image that are resources of their own (`GET /NAME?bytes=FIRST-LAST`). What a
//! range cannot be, a slice can: compressed on its way, without its holes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY,
};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::Notify;

use crate::body::{FileBody, Piece};
use crate::conditions::{Outcome, evaluate};
use crate::frame;
use crate::images::Image;
use crate::range;
use crate::response::{AnswerBody, content_range, empty, finish, stopped, text};

/// The header of each answer for an image: the length of the longest slice. Clients that know it may
/// ask for slices.
pub(crate) const LIMIT: &str = "diskfs-slice-limit";

/// The header of a slice, in the form of `Content-Range`. By it, a client notices a cache or a proxy
/// that doesn't tell slices apart.
const SLICE: &str = "diskfs-slice";

/// The length of the longest slice. Our client's longest request is shorter than 5 MiB.
pub(crate) const MAX_BYTES: u64 = 8 << 20;

/// A slice of an image that is open.
#[derive(Debug)]
pub(crate) struct Slice {
    image: Image,
    range: Range<u64>,
    is_packed: bool,
}

/// Returns the slice that a query asks for, in the syntax of a range.
pub(crate) fn of_query(query: &str) -> Option<&str> {
    query
        .split('&')
        .find_map(|field| field.strip_prefix("bytes="))
}

/// Returns true if a client decodes zstd.
pub(crate) fn takes_zstd(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    codings.any(|coding| {
        let mut fields = coding.split(';').map(str::trim);
        let is_zstd = fields
            .next()
            .is_some_and(|it| it.eq_ignore_ascii_case("zstd"));
        // A weight of zero means: not acceptable.
        is_zstd
            && !fields.any(|it| it.starts_with("q=0") && !it.contains(|c| matches!(c, '1'..='9')))
    })
}

impl Slice {
    /// Returns a slice of an image, or `None` if it has no such slice.
    pub(crate) fn of(image: Image, asked: &str, takes_zstd: bool) -> io::Result<Option<Self>> {
        let Some(range) = range::parse_one(asked, image.version.size_bytes) else {
            return Ok(None);
        };
        if range.is_empty() || range.end.saturating_sub(range.start) > MAX_BYTES {
            return Ok(None);
        }
        let is_packed = takes_zstd && frame::is_worthwhile(&image, &range)?;
        Ok(Some(Self {
            image,
            range,
            is_packed,
        }))
    }

    /// Returns the `ETag`. Each coding has one of its own, as RFC 9110 demands of strong ones.
    fn etag(&self) -> String {
        let etag = self.image.version.etag();
        match etag.strip_suffix('"').filter(|_| self.is_packed) {
            Some(start) => format!("{start}-zstd\""),
            None => etag,
        }
    }

    /// Sends the slice.
    pub(crate) fn send(
        self,
        headers: &HeaderMap,
        is_head: bool,
        stalled: Arc<Notify>,
    ) -> Response<AnswerBody> {
        let etag = self.etag();
        let builder = Response::builder()
            .header(ETAG, &etag)
            .header(VARY, ACCEPT_ENCODING)
            .header(CACHE_CONTROL, "no-cache");
        let outcome = evaluate(headers, &etag);
        if outcome != Outcome::Proceed {
            return stopped(builder, outcome);
        }
        let len_bytes = self.range.end.saturating_sub(self.range.start);
        let range = content_range(&self.range, self.image.version.size_bytes);
        let builder = builder
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(SLICE, range);
        let (builder, piece) = if self.is_packed {
            // Its length is known when all of it is compressed.
            let builder = builder.header(CONTENT_ENCODING, "zstd");
            (builder, Piece::Packed(self.range))
        } else {
            let builder = builder.header(CONTENT_LENGTH, len_bytes);
            (builder, Piece::File(self.range))
        };
        if is_head {
            return empty(builder);
        }
        finish(
            builder,
            FileBody::new(self.image, vec![piece], stalled).boxed(),
        )
    }
}

/// Returns the answer for a slice that an image doesn't have.
pub(crate) fn missing() -> Response<AnswerBody> {
    let said = "no such slice: FIRST-LAST of the image, at most 8 MiB\n";
    text(Response::builder(), StatusCode::NOT_FOUND, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_decode_zstd_get_it() {
        for (value, expected) in [
            ("zstd", true),
            ("gzip, deflate,br , ZSTD", true),
            ("zstd;q=0.5", true),
            ("zstd; q=1", true),
            ("zstd;q=0", false),
            ("gzip, zstd; q=0.000", false),
            ("gzip", false),
            ("*", false),
            ("zstdx", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(takes_zstd(&headers), expected, "{value}");
        }
        assert!(!takes_zstd(&HeaderMap::new()));
    }

    #[test]
    fn a_query_may_ask_for_a_slice() {
        for (query, expected) in [
            ("bytes=0-9", Some("0-9")),
            ("x=y&bytes=5-", Some("5-")),
            ("Bytes=0-9", None),
            ("xbytes=0-9", None),
            ("", None),
        ] {
            assert_eq!(of_query(query), expected, "{query}");
        }
    }
}
