//! One connection of a client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};

use crate::answer::{Shared, answer};

/// The time for the header of a request, also of the next one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest number of header lines, and the largest header.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Serves a connection until it ends, is too slow, or the server stops.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stalled = Arc::new(Notify::new());
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let (shared, stalled) = (Arc::clone(&shared), Arc::clone(&stalled));
        async move { Ok::<_, Infallible>(answer(&shared, &request, stalled).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection failed");
                }
                return;
            }
            () = stalled.notified() => {
                tracing::debug!("a client is too slow");
                return;
            }
            _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
