//! The messages that wait to be sent.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::{Buffer, DirectWrite};

/// The length up to which data are copied behind their header, to be sent in one record of TLS.
const MAX_COPIED_BYTES: usize = 8 << 10;

/// A message, or a part of one, that is sent as a whole.
#[derive(Debug, Default)]
pub(crate) struct Message {
    head: Vec<u8>,
    data: Buffer,
    /// The permits that the message holds until it is sent.
    permits: Vec<OwnedSemaphorePermit>,
    /// The number of bytes that have been sent.
    sent: usize,
}

impl Message {
    /// Returns a message of a header and data.
    pub(crate) fn new(head: Vec<u8>, data: impl Into<Buffer>) -> Self {
        Self {
            head,
            data: data.into(),
            ..Self::default()
        }
    }

    /// Lets the message hold the permits until it is sent.
    pub(crate) fn holding(mut self, permits: Vec<OwnedSemaphorePermit>) -> Self {
        self.permits = permits;
        self
    }

    /// Returns what is not sent yet.
    fn rest(&self) -> [IoSlice<'_>; 2] {
        let head = self.head.get(self.sent..).unwrap_or_default();
        let data_at = self.sent.saturating_sub(self.head.len());
        let data = self.data.get(data_at..).unwrap_or_default();
        [IoSlice::new(head), IoSlice::new(data)]
    }

    fn is_sent(&self) -> bool {
        self.sent >= self.head.len().saturating_add(self.data.len())
    }

    /// Copies small data behind the header.
    fn in_one_piece(mut self) -> Self {
        if self.data.len() <= MAX_COPIED_BYTES {
            self.head.extend_from_slice(&self.data);
            self.data = Buffer::default();
        }
        self
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Message>,
    /// True while [`Outbox::run`] has a message that is not completely sent.
    is_sending: bool,
    /// True if nothing is sent any more.
    is_closed: bool,
    /// True if the stream is to be closed after the last message.
    is_finished: bool,
}

/// The sending side of a connection. Any thread sends messages: at once if the socket takes them,
/// otherwise by the task that [`run`](Self::run)s.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    direct: Option<Arc<dyn DirectWrite>>,
}

impl Outbox {
    /// Returns an outbox, whose messages may be written to `direct`.
    pub(crate) fn new(direct: Option<Arc<dyn DirectWrite>>) -> Self {
        Self {
            direct,
            ..Self::default()
        }
    }

    /// Sends a message, or drops it if the connection is closed.
    pub(crate) fn send(&self, message: Message) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        let Some(message) = self.send_at_once(&state, message) else {
            return;
        };
        state.waiting.push_back(message);
        drop(state);
        self.changed.notify_one();
    }

    /// Writes to the socket, unless other messages wait. Returns what was not sent completely.
    fn send_at_once(&self, state: &State, mut message: Message) -> Option<Message> {
        let Some(direct) = &self.direct else {
            return Some(message.in_one_piece());
        };
        if state.is_sending || !state.waiting.is_empty() {
            return Some(message);
        }
        // An error of the stream is found again by `run`, which reports it.
        let sent = direct.try_write(&message.rest()).unwrap_or_default();
        message.sent = message.sent.saturating_add(sent);
        (!message.is_sent()).then_some(message)
    }

    /// Lets [`run`](Self::run) end after the messages that wait.
    pub(crate) fn finish(&self) {
        self.state().is_finished = true;
        self.changed.notify_one();
    }

    /// Drops the messages that wait, and all later ones.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.waiting.clear();
    }

    /// Sends what [`send`](Self::send) could not send at once, until [`finish`](Self::finish) or an
    /// error. A peer that takes nothing for the time `stall` is an error.
    pub(crate) async fn run(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        stall: Duration,
    ) -> io::Result<()> {
        let ended = self.send_all(stream, stall).await;
        self.close();
        ended
    }

    async fn send_all(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        stall: Duration,
    ) -> io::Result<()> {
        loop {
            while let Some(mut message) = self.next() {
                while !message.is_sent() {
                    let sent = in_time(stall, stream.write_vectored(&message.rest())).await?;
                    if sent == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    message.sent = message.sent.saturating_add(sent);
                }
            }
            in_time(stall, stream.flush()).await?;
            if self.is_over() {
                return in_time(stall, stream.shutdown()).await;
            }
            self.changed.notified().await;
        }
    }

    fn next(&self) -> Option<Message> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        state.is_sending = next.is_some();
        next
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.is_finished && state.waiting.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

async fn in_time<T>(stall: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(stall, step).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer takes no data",
        )),
    }
}
