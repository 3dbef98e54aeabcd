//! The deadlines of requests.
//!
//! A request that needs longer than its client waits is answered with `DEADLINE_EXCEEDED`. tonic by
//! itself answers with `CANCELLED`; its clock starts later, and it asks the service first.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

/// The header with the time that a client waits.
const HEADER: &str = "grpc-timeout";

/// The most digits of a time, by the protocol.
const MAX_DIGITS: usize = 8;

/// A service that keeps the deadlines of its requests.
#[derive(Debug, Clone)]
pub(super) struct Deadline<S>(pub(super) S);

impl<S: NamedService> NamedService for Deadline<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Deadline<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let header = request.headers().get(HEADER);
        let wait = header.and_then(|header| parse(header.to_str().ok()?));
        let end = wait.map(tokio::time::sleep);
        let answer = self.0.call(request);
        let Some(end) = end else {
            return Box::pin(answer);
        };
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = answer => answer,
                () = end => {
                    let reason = "the request took longer than its client waits";
                    Ok(Status::deadline_exceeded(reason).into_http())
                }
            }
        })
    }
}

/// Parses a time: `1500m` is 1500 ms.
fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > MAX_DIGITS || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(parse("2H"), Some(Duration::from_hours(2)));
        assert_eq!(parse("99999999M"), Some(Duration::from_mins(99_999_999)));
        for text in ["", "m", "12", "-1S", "+1S", "1s", "123456789S", "1 S", "1µ"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
