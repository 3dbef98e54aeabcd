//! The answers of HTTP servers, which are checked before they are believed.

use std::error::Error as _;
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use diskfs_block::{Error, ErrorKind, len_of};
use reqwest::header::{CONTENT_ENCODING, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio_rustls::rustls;

use super::content_range::ContentRange;
use crate::object::FetchError;

/// The first bytes of an object, and its size.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) total_bytes: u64,
}

/// The range of an answer that was checked.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) total_bytes: u64,
}

/// Reads the answer to the first request, for `most` bytes.
pub(crate) async fn first(response: Response, most: u64) -> Result<Part, FetchError> {
    let range = content_range(response.headers());
    match (response.status(), range) {
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(range)) if range.total_bytes == Some(0) => {
            return Ok(Part {
                bytes: Bytes::new(),
                total_bytes: 0,
            });
        }
        // A short object may come as a whole.
        (StatusCode::OK, _) if response.content_length().is_some_and(|len| len <= most) => {
            refuse_encoding(response.headers())?;
            let total_bytes = response.content_length().unwrap_or(0);
            let bytes = body(response, total_bytes).await?;
            return Ok(Part { bytes, total_bytes });
        }
        (StatusCode::OK, _) => return Err(no_ranges()),
        (StatusCode::PARTIAL_CONTENT, Some(range)) => {
            let Some(total_bytes) = range.total_bytes else {
                let reason = "the server does not tell the size of the image";
                return Err(Error::unsupported(reason).with_hint(DOWNLOAD).into());
            };
            check(&response, &(0..most.min(total_bytes)))?;
            let bytes = body(response, most.min(total_bytes)).await?;
            return Ok(Part { bytes, total_bytes });
        }
        _ => {}
    }
    Err(refusal(&response))
}

/// The hint for servers that don't serve ranges.
const DOWNLOAD: &str = "download the image first, for example with curl";

fn no_ranges() -> FetchError {
    let reason = "the server does not serve ranges of the image";
    Error::unsupported(reason).with_hint(DOWNLOAD).into()
}

/// Checks that an answer has the bytes of `range`.
pub(crate) fn check(response: &Response, range: &Range<u64>) -> Result<Found, FetchError> {
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {}
        // The answer to If-Range if the version is another one.
        StatusCode::OK | StatusCode::PRECONDITION_FAILED => {
            return Err(FetchError::changed("it has another version"));
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            return Err(FetchError::changed("it is shorter"));
        }
        _ => return Err(refusal(response)),
    }
    refuse_encoding(response.headers())?;
    let expected = (range.start, range.end.saturating_sub(1));
    match content_range(response.headers()) {
        Some(ContentRange {
            bytes,
            total_bytes: Some(total_bytes),
        }) if bytes == Some(expected) => Ok(Found { total_bytes }),
        _ => {
            let reason = "the server answered with another range than the one it was asked for";
            Err(Error::new(ErrorKind::Io, reason).into())
        }
    }
}

fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    ContentRange::parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)
}

/// Refuses contents that are compressed on their way: their ranges are others.
fn refuse_encoding(headers: &HeaderMap) -> Result<(), FetchError> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(()),
        Some(_) => {
            let reason = "the server sends the image compressed, though it was asked not to";
            Err(Error::unsupported(reason).into())
        }
    }
}

/// Reads the body of an answer, which must have `len_bytes`.
pub(crate) async fn body(mut response: Response, len_bytes: u64) -> Result<Bytes, FetchError> {
    let mut body = BytesMut::new();
    while let Some(part) = response.chunk().await.map_err(failure)? {
        if len_of(&body).saturating_add(len_of(&part)) > len_bytes {
            return Err(more_bytes());
        }
        if body.is_empty() && len_of(&part) == len_bytes {
            return Ok(part);
        }
        body.reserve(
            usize::try_from(len_bytes)
                .unwrap_or(0)
                .saturating_sub(body.len()),
        );
        body.extend_from_slice(&part);
    }
    if len_of(&body) == len_bytes {
        return Ok(body.freeze());
    }
    Err(short(len_of(&body), len_bytes))
}

/// Returns the failure of an answer that is too long.
pub(crate) fn more_bytes() -> FetchError {
    let reason = "the server sent more bytes than it was asked for";
    Error::new(ErrorKind::Io, reason).into()
}

/// Returns the failure of an answer that is too short.
pub(crate) fn short(found_bytes: u64, len_bytes: u64) -> FetchError {
    let reason = format!("the server sent {found_bytes} of {len_bytes} bytes");
    FetchError::passing(reason)
}

/// Returns the failure of an answer that is an error.
pub(crate) fn refusal(response: &Response) -> FetchError {
    let status = response.status();
    let reason = format!("the server answered {status}");
    let kind = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let error = Error::new(ErrorKind::Denied, reason);
            return error
                .with_hint("add the server to ~/.netrc, or set DISKFS_HTTP_TOKEN to a token for it")
                .into();
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => ErrorKind::Denied,
        // One to HTTP would have been followed.
        _ if status.is_redirection() => {
            let reason =
                "the server's redirection is refused: it leads to something else than HTTP";
            return Error::new(ErrorKind::Denied, reason).into();
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            return passing(reason, response.headers());
        }
        _ if status.is_server_error() => return passing(reason, response.headers()),
        _ => ErrorKind::Io,
    };
    Error::new(kind, reason).into()
}

/// Returns a failure that may pass, after the time that the server asks for in seconds.
pub(crate) fn passing(reason: String, headers: &HeaderMap) -> FetchError {
    let after = headers.get(RETRY_AFTER).and_then(|value| {
        let seconds: u32 = value.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds.into()))
    });
    FetchError::Passing { reason, after }
}

/// The next step after a certificate that was not accepted.
const NO_AUTHORITY: &str = "install the authorities of this host (the package ca-certificates), or set \
    SSL_CERT_FILE to the certificate of the server's authority";

/// Returns the failure of a request that got no answer.
pub(crate) fn failure(error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(tls) = tls_error(cause) {
            let reason = format!("cannot connect with TLS: {tls}");
            let error = Error::new(ErrorKind::Denied, reason);
            return error.with_hint(NO_AUTHORITY).into();
        }
        reason = cause.to_string();
        source = cause.source();
    }
    // The URL that was asked for is one of HTTP, so another scheme is that of a redirection.
    if error.is_redirect() || error.is_builder() {
        let reason = format!("the server's redirection is refused: {reason}");
        return Error::new(ErrorKind::Denied, reason).into();
    }
    let what = if error.is_timeout() {
        "the server does not answer in time".to_owned()
    } else if error.is_connect() {
        format!("cannot connect: {reason}")
    } else {
        format!("the connection is lost: {reason}")
    };
    FetchError::passing(what)
}

/// Returns the error of TLS that a cause is, or that it wraps. A certificate that isn't trusted now
/// won't be after a retry.
fn tls_error<'a>(mut cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    while let Some(inner) = cause
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref)
    {
        cause = inner;
    }
    cause.downcast_ref()
}
