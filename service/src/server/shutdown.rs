//! The end of the server.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::runner::Runner;

/// The interval at which the running jobs are counted.
const POLL: Duration = Duration::from_millis(20);

/// The time that cancelled jobs may take to end.
const CANCELLED: Duration = Duration::from_secs(30);

/// The signals that ask the server to stop. Once this exists, they kill the server no longer.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals.
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal, and returns its name.
    pub(super) async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Refuses new requests, and waits until the running ones are done. After `timeout` they are
/// cancelled: their disks stay as they were.
pub(super) async fn complete(runner: &Runner, timeout: Duration) {
    runner.stop();
    if !wait(runner, timeout).await {
        tracing::warn!(requests = runner.count(), "cancelling the running requests");
        runner.cancel_all();
        wait(runner, CANCELLED).await;
    }
}

async fn wait(runner: &Runner, timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    while runner.count() > 0 {
        if Instant::now() >= end {
            return false;
        }
        sleep(POLL).await;
    }
    true
}
