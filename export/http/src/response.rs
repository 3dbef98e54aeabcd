//! The parts that all answers have.

use std::convert::Infallible;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::response::Builder;
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};

use crate::conditions::Outcome;

/// The body of an answer.
pub(crate) type AnswerBody = BoxBody<Bytes, io::Error>;

/// Returns the answer for a client whose conditions stop its request.
pub(crate) fn stopped(builder: Builder, outcome: Outcome) -> Response<AnswerBody> {
    if outcome == Outcome::NotModified {
        return empty(builder.status(StatusCode::NOT_MODIFIED));
    }
    let said = "the image has another version\n";
    text(builder, StatusCode::PRECONDITION_FAILED, said)
}

/// Returns the value of `Content-Range` for a range of a file of this size.
pub(crate) fn content_range(range: &Range<u64>, size_bytes: u64) -> String {
    format!(
        "bytes {}-{}/{size_bytes}",
        range.start,
        range.end.saturating_sub(1)
    )
}

/// Returns the answer for an image that does not exist, or that the client may not read.
pub(crate) fn missing() -> Response<AnswerBody> {
    text(
        Response::builder(),
        StatusCode::NOT_FOUND,
        "no such image\n",
    )
}

/// Returns an answer that says something.
pub(crate) fn text(
    builder: Builder,
    status: StatusCode,
    said: &'static str,
) -> Response<AnswerBody> {
    let builder = builder.status(status).header(CONTENT_TYPE, "text/plain");
    finish(builder, whole(said))
}

/// Returns an answer without a body.
pub(crate) fn empty(builder: Builder) -> Response<AnswerBody> {
    finish(builder, whole(Bytes::new()))
}

/// Returns a body that is complete.
pub(crate) fn whole(body: impl Into<Bytes>) -> AnswerBody {
    let never = |never: Infallible| match never {};
    Full::from(body.into()).map_err(never).boxed()
}

/// Returns an answer with a body.
pub(crate) fn finish(builder: Builder, body: AnswerBody) -> Response<AnswerBody> {
    let built = builder.header(X_CONTENT_TYPE_OPTIONS, "nosniff").body(body);
    built.unwrap_or_else(|error| {
        // Only if a header had characters that none of ours has.
        tracing::warn!(%error, "an answer could not be made");
        let mut response = Response::new(whole(Bytes::new()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// Removes the body of an answer to HEAD, whose length stays stated.
pub(crate) fn without_body(response: &mut Response<AnswerBody>) {
    use hyper::body::Body as _;
    let len_bytes = response.body().size_hint().exact();
    if let Some(len_bytes) = len_bytes.filter(|_| !response.headers().contains_key(CONTENT_LENGTH))
    {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, len_bytes.into());
    }
    *response.body_mut() = whole(Bytes::new());
}
