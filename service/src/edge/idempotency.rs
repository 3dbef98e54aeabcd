//! Idempotency keys: a repeated request gets the result of the first one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::failure::{Failure, FailureKind};
use crate::job::PlanResult;

/// The time for which the result of a successful request is kept.
const KEPT: Duration = Duration::from_mins(10);

/// The largest number of kept results, and the longest key.
const MAX_KEPT: usize = 10_000;
const MAX_KEY_BYTES: usize = 128;

/// The state of a request with a key: running, or done.
type State = Option<Result<PlanResult, Failure>>;

/// The requests with keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<HashMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    /// The request, as its encoded message.
    request: Vec<u8>,
    state: watch::Receiver<State>,
    ended: Option<Instant>,
}

/// The role of a request with a key.
#[derive(Debug)]
pub(super) enum Claim {
    /// The first one: it does the work, and publishes its result.
    First(watch::Sender<State>),
    /// A repetition: it waits for the result.
    Repeated(watch::Receiver<State>),
}

impl Keys {
    /// Claims a key.
    pub(super) fn claim(&self, key: &str, request: Vec<u8>) -> Result<Claim, Failure> {
        if key.len() > MAX_KEY_BYTES {
            let message = format!("the idempotency key is longer than {MAX_KEY_BYTES} bytes");
            return Err(Failure::invalid(message));
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| entry.is_current());
        if let Some(entry) = entries.get(key) {
            if entry.request != request {
                let message = "the idempotency key belongs to another request";
                return Err(Failure::invalid(message));
            }
            return Ok(Claim::Repeated(entry.state.clone()));
        }
        if entries.len() >= MAX_KEPT {
            let message = "too many requests with idempotency keys; try again later";
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let (sender, state) = watch::channel(None);
        let entry = Entry {
            request,
            state,
            ended: None,
        };
        entries.insert(key.to_owned(), entry);
        Ok(Claim::First(sender))
    }
}

impl Entry {
    /// Returns true if the request is running, or has succeeded a short time ago.
    fn is_current(&mut self) -> bool {
        let is_over = self.state.has_changed().is_err();
        let has_succeeded = matches!(&*self.state.borrow(), Some(Ok(_)));
        if !is_over {
            return true;
        }
        let ended = *self.ended.get_or_insert_with(Instant::now);
        has_succeeded && ended.elapsed() < KEPT
    }
}

/// Waits for the result of the first request.
pub(super) async fn result(mut state: watch::Receiver<State>) -> Result<PlanResult, Failure> {
    let done = state.wait_for(Option::is_some).await;
    let gone = || {
        Failure::new(
            FailureKind::Cancelled,
            "the first request with this key was cancelled",
        )
    };
    done.ok()
        .and_then(|state| state.clone())
        .unwrap_or_else(|| Err(gone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_repetition_gets_the_first_result() {
        let keys = Keys::default();
        let Ok(Claim::First(first)) = keys.claim("k", vec![1]) else {
            panic!("the first request has the key");
        };
        let Ok(Claim::Repeated(second)) = keys.claim("k", vec![1]) else {
            panic!("the second request waits");
        };
        assert_eq!(
            keys.claim("k", vec![2]).unwrap_err().kind,
            FailureKind::Invalid
        );
        first.send_replace(Some(Ok(PlanResult::default())));
        drop(first);
        assert_eq!(result(second).await.unwrap(), PlanResult::default());
        assert!(matches!(keys.claim("k", vec![1]), Ok(Claim::Repeated(_))));
    }

    #[tokio::test]
    async fn a_failed_request_can_be_repeated() {
        let keys = Keys::default();
        for _ in 0..2 {
            let Ok(Claim::First(first)) = keys.claim("k", vec![1]) else {
                panic!("the key is free");
            };
            drop(first);
        }
    }
}
