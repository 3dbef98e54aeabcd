//! The requests that wait for their replies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::covered::Covered;
use crate::protocol::{BlockDescriptor, Violation};
use crate::stream::{Buffer, Buffers};

/// The kind of a request: what its reply has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The data of the range.
    Read,
    /// The runs of the range in `base:allocation`.
    Status,
    /// Success or failure.
    Plain,
}

/// The data of a successful reply.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) data: Buffer,
    pub(super) runs: Vec<BlockDescriptor>,
}

/// The reason why a request has no answer.
#[derive(Debug, Clone)]
pub(super) enum Miss {
    /// The server reports an error: its number and its message.
    Refused(u32, String),
    /// The connection ended.
    Lost(String),
    /// The time is over.
    Late,
}

#[derive(Debug, Default)]
struct State {
    answer: Answer,
    covered: Covered,
    error: Option<(u32, String)>,
    outcome: Option<Result<(), Miss>>,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
    state: Mutex<State>,
    done: Notify,
}

impl Pending {
    /// Returns a request. The data of a read get a buffer of `buffers`.
    pub(super) fn new(kind: Kind, (offset, len_bytes): (u64, u64), buffers: &Arc<Buffers>) -> Self {
        let len = match kind {
            Kind::Read => usize::try_from(len_bytes).unwrap_or_default(),
            Kind::Status | Kind::Plain => 0,
        };
        let state = State {
            answer: Answer {
                data: buffers.take(len),
                runs: Vec::new(),
            },
            ..State::default()
        };
        Self {
            kind,
            offset,
            len_bytes,
            state: Mutex::new(state),
            done: Notify::new(),
        }
    }

    /// Waits for the reply.
    pub(super) async fn wait(&self) -> Result<Answer, Miss> {
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            self.done.notified().await;
        }
    }

    fn answer(&self) -> Option<Result<Answer, Miss>> {
        let mut state = self.state();
        let outcome = state.outcome.clone()?;
        Some(outcome.map(|()| std::mem::take(&mut state.answer)))
    }

    /// Takes the buffer of a read while its data arrive.
    pub(super) fn take_data(&self) -> Buffer {
        std::mem::take(&mut self.state().answer.data)
    }

    pub(super) fn put_data(&self, data: Buffer) {
        self.state().answer.data = data;
    }

    /// Records a part of a read that is zeroes.
    pub(super) fn put_hole(&self, offset: u64, len_bytes: u64) -> Result<(), Violation> {
        self.cover(offset, len_bytes)?;
        let start = usize::try_from(offset.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let mut state = self.state();
        let part = state.answer.data.get_mut(start..start.saturating_add(len));
        part.unwrap_or_default().fill(0);
        Ok(())
    }

    /// Records that a part of a read arrived. Fails if it is not a part, or a second time.
    pub(super) fn cover(&self, offset: u64, len_bytes: u64) -> Result<(), Violation> {
        let end = offset.checked_add(len_bytes);
        let all = self.offset.saturating_add(self.len_bytes);
        match end {
            Some(end) if offset >= self.offset && end <= all && len_bytes > 0 => {
                self.state().covered.add(offset, end)
            }
            _ => Err(Violation("a chunk is not within its read")),
        }
    }

    /// Records the runs of a block status.
    pub(super) fn set_runs(&self, runs: Vec<BlockDescriptor>) {
        self.state().answer.runs = runs;
    }

    /// Records an error. The first one counts.
    pub(super) fn set_error(&self, number: u32, message: String) {
        self.state().error.get_or_insert((number, message));
    }

    /// Ends the request after its last chunk.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        let mut state = self.state();
        let end = self.offset.saturating_add(self.len_bytes);
        let outcome = match (state.error.take(), self.kind) {
            (Some((number, message)), _) => Err(Miss::Refused(number, message)),
            (None, Kind::Read) if !state.covered.is_all_of(self.offset, end) => {
                return Err(Violation("a read without all of its data"));
            }
            (None, Kind::Status) if state.answer.runs.is_empty() => {
                return Err(Violation("a block status without its runs"));
            }
            (None, _) => Ok(()),
        };
        self.end(&mut state, outcome);
        Ok(())
    }

    fn lose(&self, reason: &str) {
        self.end(&mut self.state(), Err(Miss::Lost(reason.to_owned())));
    }

    fn end(&self, state: &mut State, outcome: Result<(), Miss>) {
        state.outcome.get_or_insert(outcome);
        // At most one thread waits.
        self.done.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Requests {
    waiting: HashMap<u64, Arc<Pending>>,
    last_cookie: u64,
    /// The reason why the connection ended.
    ended: Option<String>,
}

/// The requests of a connection that wait for their replies, by their cookies.
#[derive(Debug, Default)]
pub(super) struct Table {
    requests: Mutex<Requests>,
    ended: Notify,
}

impl Table {
    /// Adds a request, and returns its cookie. Fails with the reason if the connection has ended.
    pub(super) fn add(&self, pending: Arc<Pending>) -> Result<u64, String> {
        let mut requests = self.requests();
        if let Some(reason) = &requests.ended {
            return Err(reason.clone());
        }
        let cookie = requests.last_cookie.wrapping_add(1);
        requests.last_cookie = cookie;
        requests.waiting.insert(cookie, pending);
        Ok(cookie)
    }

    /// Returns the request of a cookie.
    pub(super) fn get(&self, cookie: u64) -> Result<Arc<Pending>, Violation> {
        let found = self.requests().waiting.get(&cookie).cloned();
        found.ok_or(Violation("a reply without its request"))
    }

    /// Ends a request after its last chunk.
    pub(super) fn finish(&self, cookie: u64) -> Result<(), Violation> {
        let found = self.requests().waiting.remove(&cookie);
        found.map_or(Ok(()), |pending| {
            pending.finish().inspect_err(|e| pending.lose(e.0))
        })
    }

    /// Ends the connection: its requests are lost.
    pub(super) fn end(&self, reason: &str) {
        let mut requests = self.requests();
        requests.ended.get_or_insert_with(|| reason.to_owned());
        let waiting = std::mem::take(&mut requests.waiting);
        drop(requests);
        self.ended.notify_one();
        for pending in waiting.into_values() {
            pending.lose(reason);
        }
    }

    /// Returns the number of requests, or `None` if the connection has ended.
    pub(super) fn load(&self) -> Option<usize> {
        let requests = self.requests();
        requests.ended.is_none().then_some(requests.waiting.len())
    }

    /// Waits until the connection has ended.
    pub(super) async fn end_of_connection(&self) {
        while self.load().is_some() {
            self.ended.notified().await;
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
