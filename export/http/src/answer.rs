//! The answers to requests.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, RANGE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use tokio::sync::Notify;

use crate::access::{Access, Client};
use crate::body::{FileBody, Piece};
use crate::conditions::{Outcome, allows_ranges, evaluate};
use crate::images::{Image, Images};
use crate::listing::Lister;
use crate::range::Requested;
use crate::response::{
    AnswerBody, content_range, empty, finish, missing, stopped, text, whole, without_body,
};
use crate::slice::{self, Slice};

/// The text between the parts of an answer with several ranges. It is no secret, and a file that
/// contains it does no harm: the length of each part is known.
const BOUNDARY: &str = "diskfs-part-boundary-7c1f4d0a";

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) images: Images,
    pub(crate) access: Access,
    pub(crate) lister: Lister,
}

/// Answers a request. `stalled` is notified if the client takes the answer too slowly.
pub(crate) async fn answer<B: Sync>(
    shared: &Arc<Shared>,
    request: &Request<B>,
    stalled: Arc<Notify>,
) -> Response<AnswerBody> {
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        let builder = Response::builder().header(ALLOW, "GET, HEAD");
        return text(
            builder,
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD\n",
        );
    }
    let authorization = request.headers().get(AUTHORIZATION).cloned();
    if shared.access.client(authorization.as_ref()).is_none() {
        let builder = Response::builder().header(WWW_AUTHENTICATE, "Bearer");
        return text(builder, StatusCode::UNAUTHORIZED, "a token is needed\n");
    }
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let name = percent_decode_str(&path).decode_utf8();
    let Ok(name) = name.map(std::borrow::Cow::into_owned) else {
        return missing();
    };
    let slice = request.uri().query().and_then(slice::of_query);
    let slice = slice.map(str::to_owned);
    let takes_zstd = slice::takes_zstd(request.headers());
    let ours = Arc::clone(shared);
    let opened = tokio::task::spawn_blocking(move || {
        let Some(client) = ours.access.client(authorization.as_ref()) else {
            return Ok(Opened::Missing);
        };
        match (open(&ours, &name, &client)?, slice) {
            (Opened::Image(image), Some(asked)) => {
                let slice = Slice::of(image, &asked, takes_zstd)?;
                Ok(slice.map_or(Opened::NoSlice, Opened::Slice))
            }
            (opened, _) => Ok(opened),
        }
    });
    let opened = opened.await.unwrap_or_else(|e| Err(io::Error::other(e)));
    let mut response = match opened {
        Ok(Opened::List(list)) => {
            let builder = Response::builder().header(CACHE_CONTROL, "no-cache");
            let builder = builder.header(CONTENT_TYPE, "application/json");
            finish(builder, whole(list))
        }
        Ok(Opened::Image(image)) => send(image, request.headers(), is_head, stalled),
        Ok(Opened::Slice(slice)) => slice.send(request.headers(), is_head, stalled),
        Ok(Opened::NoSlice) => slice::missing(),
        Ok(Opened::Missing) => missing(),
        Err(error) => {
            tracing::warn!(%error, "a request failed");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            text(Response::builder(), status, "the image cannot be read\n")
        }
    };
    if is_head {
        without_body(&mut response);
    }
    tracing::debug!(path = %path.escape_debug(), status = response.status().as_u16(), "request");
    response
}

/// The target of a request.
enum Opened {
    List(String),
    Image(Image),
    Slice(Slice),
    /// A slice that the image doesn't have.
    NoSlice,
    /// No image, or one that the client may not read: a client does not learn which.
    Missing,
}

fn open(shared: &Shared, name: &str, client: &Client<'_>) -> io::Result<Opened> {
    if name.is_empty() {
        return shared.lister.list(&shared.images, client).map(Opened::List);
    }
    if !client.may_read(name) {
        return Ok(Opened::Missing);
    }
    let image = shared.images.open(name)?;
    Ok(image.map_or(Opened::Missing, Opened::Image))
}

/// Sends an image, whole or by ranges.
fn send(
    image: Image,
    headers: &HeaderMap,
    is_head: bool,
    stalled: Arc<Notify>,
) -> Response<AnswerBody> {
    let (etag, size_bytes) = (image.version.etag(), image.version.size_bytes);
    let builder = Response::builder()
        .header(ETAG, &etag)
        .header(ACCEPT_RANGES, "bytes")
        .header(slice::LIMIT, slice::MAX_BYTES)
        .header(CACHE_CONTROL, "no-cache");
    let outcome = evaluate(headers, &etag);
    if outcome != Outcome::Proceed {
        return stopped(builder, outcome);
    }
    let range = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let range = range.filter(|_| !is_head && allows_ranges(headers, &etag));
    let requested = range.map_or(Requested::Whole, |range| {
        Requested::parse(range, size_bytes)
    });
    let (builder, pieces) = match requested {
        Requested::Whole => {
            let builder = builder.header(CONTENT_TYPE, "application/octet-stream");
            (builder, vec![Piece::File(0..size_bytes)])
        }
        Requested::Parts(parts) => {
            let builder = builder.status(StatusCode::PARTIAL_CONTENT);
            match parts.as_slice() {
                [part] => {
                    let range = content_range(part, size_bytes);
                    let builder = builder.header(CONTENT_TYPE, "application/octet-stream");
                    (
                        builder.header(CONTENT_RANGE, range),
                        vec![Piece::File(part.clone())],
                    )
                }
                parts => {
                    let kind = format!("multipart/byteranges; boundary={BOUNDARY}");
                    (
                        builder.header(CONTENT_TYPE, kind),
                        multipart(parts, size_bytes),
                    )
                }
            }
        }
        Requested::Nothing => {
            let builder = builder.header(CONTENT_RANGE, format!("bytes */{size_bytes}"));
            return text(
                builder,
                StatusCode::RANGE_NOT_SATISFIABLE,
                "no such range\n",
            );
        }
    };
    let len_bytes = pieces.iter().map(Piece::len_bytes);
    let builder = builder.header(CONTENT_LENGTH, len_bytes.fold(0, u64::saturating_add));
    if is_head {
        return empty(builder);
    }
    finish(builder, FileBody::new(image, pieces, stalled).boxed())
}

/// Returns the pieces of an answer with several ranges (RFC 9110, section 14.6).
fn multipart(parts: &[Range<u64>], size_bytes: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in parts {
        let head = format!(
            "\r\n--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: {}\r\n\r\n",
            content_range(part, size_bytes)
        );
        pieces.push(Piece::Text(head.into()));
        pieces.push(Piece::File(part.clone()));
    }
    pieces.push(Piece::Text(format!("\r\n--{BOUNDARY}--\r\n").into()));
    pieces
}
