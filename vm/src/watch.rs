//! A watchdog that kills a machine which no longer answers.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_remote::client::Client;

use super::process::Process;

/// The number of checks until a request's time is over. The time is counted in checks, not by the
/// clock: a process that is stopped makes none, so it does not take its machine for a hanging one.
const CHECKS_MAX: u32 = 8;

/// The shortest pause between two checks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The watchdog of a machine; it works until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    /// The time without an answer after which the machine was killed.
    hung: Arc<OnceLock<Duration>>,
    /// The channel whose end stops the thread.
    alive: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Kills the machine when one of its requests has had no answer for `deadline`.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn start(
        client: Client,
        process: &Arc<Process>,
        deadline: Duration,
    ) -> io::Result<Self> {
        let hung = Arc::new(OnceLock::new());
        let (alive, dropped) = mpsc::sync_channel(0);
        let hung_flag = Arc::clone(&hung);
        // A weak reference, so that the watchdog does not keep the process alive.
        let process = Arc::downgrade(process);
        let thread = thread::Builder::new()
            .name("microvm watch".to_owned())
            .spawn(move || {
                let pause = deadline
                    .checked_div(CHECKS_MAX)
                    .unwrap_or_default()
                    .max(SHORTEST_PAUSE);
                let mut seen = HashMap::new();
                while dropped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    seen = count_checks(&client, &seen);
                    if seen.values().any(|&checks| checks > CHECKS_MAX) {
                        hung_flag.get_or_init(|| deadline);
                        if let Some(process) = process.upgrade() {
                            process.kill();
                        }
                        return;
                    }
                }
            })?;
        Ok(Self {
            hung,
            alive: Some(alive),
            thread: Some(thread),
        })
    }

    /// Returns the time without an answer after which the machine was killed, once it was.
    pub(super) fn hung(&self) -> Arc<OnceLock<Duration>> {
        Arc::clone(&self.hung)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // The thread has no result.
        }
    }
}

/// Returns, for each waiting request, the number of checks that have seen it.
fn count_checks(client: &Client, seen: &HashMap<u64, u32>) -> HashMap<u64, u32> {
    let waiting = client.waiting_requests().into_iter();
    let checks = |number| {
        seen.get(&number)
            .map_or(1, |checks| checks.saturating_add(1))
    };
    waiting.map(|number| (number, checks(number))).collect()
}
