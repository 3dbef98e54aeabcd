//! Retries of failed requests.

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
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let (reason, after) = match attempt().await {
            Ok(done) => return Ok(done),
            Err(FetchError::Final(error)) => return Err(error),
            Err(FetchError::Passing { reason, after }) => (reason, after),
        };
        let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
        if start.elapsed().saturating_add(wait) >= timeout {
            return Err(Error::new(ErrorKind::Io, reason));
        }
        tracing::debug!("{reason}; next attempt in {} ms", wait.as_millis());
        tokio::time::sleep(wait).await;
        pause = pause.saturating_mul(2);
    }
}
