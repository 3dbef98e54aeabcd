//! Who ends a machine that no longer answers.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_remote::client::Client;

use super::process::Process;

/// How often it is looked before a request's time is over. A process that was stopped meanwhile has not looked, so
/// that its machine is not taken for the one that did not answer.
const LOOKS: u32 = 8;

/// And not more often than this.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Looks after a machine until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    /// For how long it had not answered, when it was killed for that.
    hung: Arc<OnceLock<Duration>>,
    /// Dropped, the thread ends.
    alive: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Kills the machine when one of its requests has no answer for so long.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(
        client: Client,
        process: &Arc<Process>,
        deadline: Duration,
    ) -> io::Result<Self> {
        let hung = Arc::new(OnceLock::new());
        let (alive, dropped) = mpsc::sync_channel(0);
        let tell = Arc::clone(&hung);
        // Whose end it does not put off.
        let process = Arc::downgrade(process);
        let thread = thread::Builder::new()
            .name("microvm watch".to_owned())
            .spawn(move || {
                let pause = deadline
                    .checked_div(LOOKS)
                    .unwrap_or_default()
                    .max(SHORTEST_PAUSE);
                let mut seen = HashMap::new();
                while dropped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    seen = look(&client, &seen);
                    if seen.values().any(|&looks| looks > LOOKS) {
                        tell.get_or_init(|| deadline);
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

    /// For how long it had not answered, once it was killed for that.
    pub(super) fn hung(&self) -> Arc<OnceLock<Duration>> {
        Arc::clone(&self.hung)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // It has nothing to tell.
        }
    }
}

/// How often each request that waits now was seen waiting.
fn look(client: &Client, seen: &HashMap<u64, u32>) -> HashMap<u64, u32> {
    let waiting = client.waiting_requests().into_iter();
    let looks = |number| seen.get(&number).map_or(1, |looks| looks.saturating_add(1));
    waiting.map(|number| (number, looks(number))).collect()
}
