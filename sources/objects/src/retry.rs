//! Retries of failed requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskfs_block::{Error, ErrorKind, Result};

use crate::object::FetchError;

/// The pause before the second attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause, also if the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Calls `attempt` until it succeeds, fails for good, or `timeout` is over.
pub(crate) async fn with_retries<T, F>(
    timeout: Duration,
    attempt: impl Fn() -> F + Send,
) -> Result<T>
where
    F: Future<Output = std::result::Result<T, FetchError>> + Send,
{
    Outage::default().with_retries(timeout, attempt).await
}

/// The state of a server: whether the last request failed in spite of its retries.
#[derive(Debug, Default)]
pub(crate) struct Outage(AtomicBool);

impl Outage {
    /// Calls `attempt` as [`with_retries`] does, but only once during an outage: the caller of a
    /// disk that is gone would otherwise wait for each of its reads.
    pub(crate) async fn with_retries<T, F>(
        &self,
        timeout: Duration,
        attempt: impl Fn() -> F + Send,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, FetchError>> + Send,
    {
        let timeout = if self.0.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            timeout
        };
        let result = repeated(timeout, attempt).await;
        let is_outage = matches!(result, Err(FetchError::Passing { .. }));
        self.0.store(is_outage, Ordering::Relaxed);
        result.map_err(|error| match error {
            FetchError::Final(error) => error,
            FetchError::Passing { reason, .. } => Error::new(ErrorKind::Io, reason),
        })
    }
}

/// Calls `attempt` until it succeeds, fails for good, or `timeout` is over.
async fn repeated<T, F>(
    timeout: Duration,
    attempt: impl Fn() -> F + Send,
) -> std::result::Result<T, FetchError>
where
    F: Future<Output = std::result::Result<T, FetchError>> + Send,
{
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let (reason, after) = match attempt().await {
            Err(FetchError::Passing { reason, after }) => (reason, after),
            ended => return ended,
        };
        let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
        if start.elapsed().saturating_add(wait) >= timeout {
            return Err(FetchError::Passing { reason, after });
        }
        tracing::debug!("{reason}; next attempt in {} ms", wait.as_millis());
        tokio::time::sleep(wait).await;
        pause = pause.saturating_mul(2);
    }
}
