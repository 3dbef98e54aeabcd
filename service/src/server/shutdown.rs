//! The end of the server.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::{Instant, sleep};

use crate::runner::Runner;

/// The interval at which the running jobs are counted.
const POLL: Duration = Duration::from_millis(20);

/// The time that cancelled jobs may take to end.
const CANCELLED: Duration = Duration::from_secs(30);

/// Waits for a signal that asks the server to stop, and returns its name.
pub(super) async fn signal() -> io::Result<&'static str> {
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
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
