//! Waiting for the next request of a client that sends one after the other.
//!
//! Such a client sends its next request some microseconds after an answer. If the connection's
//! thread slept in between, each request would have to wake it; between two processors of a virtual
//! machine that costs more than a read from the page cache. So the thread busy-polls for a short
//! time, as long as that has found requests and no other process wants the processor.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use diskfs_block::processors;
use tokio::io::AsyncBufRead;
use tokio::sync::Semaphore;

/// The longest busy-poll. The client must be scheduled and do its own work before it asks again.
const BUSY_POLL_MAX: Duration = Duration::from_micros(100);

/// A single poll takes some microseconds; when it took this long, another process had the
/// processor.
const INTERRUPTION_MIN: Duration = Duration::from_micros(200);

/// The pause of busy-polling after an interruption: other processes may need more of the processor.
const INTERRUPTION_PAUSE: Duration = Duration::from_millis(10);

/// The number of requests, each soon after an answer, after which busy-polling is worth it.
const BACK_TO_BACK_MIN: u32 = 4;

/// Returns the permits of the connections of a server: half of the processors may poll. With a single
/// one, busy-polling would keep the client from asking.
pub(super) fn permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(processors().get() / 2))
}

/// The choice of one connection between busy-polling and sleeping.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// The permits of all connections: each that polls needs one.
    polls: Arc<Semaphore>,
    /// The number of consecutive requests that came soon after an answer.
    in_a_row: u32,
    /// The time until which the thread sleeps.
    paused_until: Instant,
}

impl BusyPoll {
    pub(super) fn new(polls: Arc<Semaphore>) -> Self {
        Self {
            polls,
            in_a_row: 0,
            paused_until: Instant::now(),
        }
    }

    /// Waits until the client sends something, or until the stream ends or fails. `answered` is the
    /// time at which all its requests were answered, if they were.
    pub(super) async fn wait(
        &mut self,
        stream: &mut (impl AsyncBufRead + Unpin),
        answered: Option<Instant>,
    ) {
        let Some(answered) = answered else {
            return;
        };
        if self.in_a_row >= BACK_TO_BACK_MIN && answered >= self.paused_until {
            let polls = Arc::clone(&self.polls);
            if let Ok(_permit) = polls.try_acquire() {
                self.poll(stream, answered).await;
            }
        }
        wait_for_data(stream).await;
        self.in_a_row = if answered.elapsed() <= BUSY_POLL_MAX {
            self.in_a_row.saturating_add(1)
        } else {
            0
        };
    }

    /// Busy-polls until there are data, or the time is over.
    async fn poll(&mut self, stream: &mut (impl AsyncBufRead + Unpin), began: Instant) {
        let mut now = began;
        while now.duration_since(began) < BUSY_POLL_MAX && !has_data(stream).await {
            // Every other process that wants this processor goes first, above all the client.
            thread::yield_now();
            // The runtime looks at its sockets meanwhile.
            tokio::task::yield_now().await;
            let then = now;
            now = Instant::now();
            if now.duration_since(then) >= INTERRUPTION_MIN {
                self.paused_until = now.checked_add(INTERRUPTION_PAUSE).unwrap_or(now);
                return;
            }
        }
    }
}

/// Returns true if reading would not wait.
async fn has_data(stream: &mut (impl AsyncBufRead + Unpin)) -> bool {
    std::future::poll_fn(|context| {
        let filled = Pin::new(&mut *stream).poll_fill_buf(context);
        Poll::Ready(filled.is_ready())
    })
    .await
}

/// Waits until reading would not wait.
async fn wait_for_data(stream: &mut (impl AsyncBufRead + Unpin)) {
    std::future::poll_fn(|context| {
        let filled = Pin::new(&mut *stream).poll_fill_buf(context);
        filled.map(|_| ())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufReader};

    use super::*;

    fn busy() -> BusyPoll {
        BusyPoll {
            in_a_row: BACK_TO_BACK_MIN,
            ..BusyPoll::new(Arc::new(Semaphore::new(1)))
        }
    }

    #[tokio::test]
    async fn requests_soon_after_an_answer_are_counted() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut stream = BufReader::new(server);
        let mut waiting = busy();
        client.write_all(b"request").await.unwrap();
        waiting.wait(&mut stream, None).await;
        assert_eq!(waiting.in_a_row, BACK_TO_BACK_MIN);
        // A busy host may need longer than the limit even here.
        while waiting.in_a_row <= BACK_TO_BACK_MIN {
            waiting.in_a_row = BACK_TO_BACK_MIN;
            waiting.wait(&mut stream, Some(Instant::now())).await;
        }
        assert_eq!(stream.buffer(), b"request");
    }

    #[tokio::test]
    async fn a_client_that_sends_later_is_waited_for_asleep() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut stream = BufReader::new(server);
        let mut waiting = busy();
        let late = async {
            tokio::time::sleep(BUSY_POLL_MAX * 20).await;
            client.write_all(b"request").await.unwrap();
        };
        tokio::join!(waiting.wait(&mut stream, Some(Instant::now())), late);
        assert_eq!(waiting.in_a_row, 0);
        assert_eq!(stream.buffer(), b"request");
        assert_eq!(waiting.polls.available_permits(), 1);
    }

    #[tokio::test]
    async fn the_end_of_a_stream_ends_the_wait() {
        let (client, server) = tokio::io::duplex(64);
        drop(client);
        let mut stream = BufReader::new(server);
        busy().wait(&mut stream, Some(Instant::now())).await;
        assert!(stream.buffer().is_empty());
    }
}
