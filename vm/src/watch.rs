//! A watchdog that kills a machine which no longer answers.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_remote::client::Client;

use super::process::Process;
use diskfs_export::vhost_user::BlockDevice;

/// The number of checks until a request's time is over. The time is counted in checks, not by the
/// clock: a process that is stopped makes none, so it does not take its machine for a hanging one.
const CHECKS_MAX: u32 = 8;

/// The number of checks until the time of a request is over whose machine uses its disks: work on
/// a large filesystem may take minutes, but a machine must not keep a caller waiting forever.
const BUSY_CHECKS_MAX: u32 = 20 * CHECKS_MAX;

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
    /// Kills the machine when one of its requests has had no answer for `deadline` and the machine
    /// has not used its disks meanwhile, or for twenty times as long if it has.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn start(
        client: Client,
        process: &Arc<Process>,
        disks: &[Arc<BlockDevice>],
        deadline: Duration,
    ) -> io::Result<Self> {
        let hung = Arc::new(OnceLock::new());
        let (alive, dropped) = mpsc::sync_channel(0);
        let hung_flag = Arc::clone(&hung);
        // A weak reference, so that the watchdog does not keep the process alive.
        let process = Arc::downgrade(process);
        let mut activity = Activity::of(disks);
        let thread = thread::Builder::new()
            .name("microvm watch".to_owned())
            .spawn(move || {
                let pause = deadline
                    .checked_div(CHECKS_MAX)
                    .unwrap_or_default()
                    .max(SHORTEST_PAUSE);
                let mut seen = HashMap::new();
                while dropped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    seen = count_checks(&client.waiting_requests(), &seen, activity.is_seen());
                    if seen.values().any(|checks| checks.are_over()) {
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

/// The checks that have seen a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Checks {
    all: u32,
    /// The checks since the machine has used a disk.
    idle: u32,
}

impl Checks {
    fn are_over(self) -> bool {
        self.idle > CHECKS_MAX || self.all > BUSY_CHECKS_MAX
    }
}

/// Returns, for each waiting request, the checks that have seen it.
fn count_checks(
    waiting: &[u64],
    seen: &HashMap<u64, Checks>,
    is_active: bool,
) -> HashMap<u64, Checks> {
    let count = |number: &u64| {
        let Checks { all, idle } = seen.get(number).copied().unwrap_or_default();
        let idle = if is_active { 0 } else { idle };
        let checks = Checks {
            all: all.saturating_add(1),
            idle: idle.saturating_add(1),
        };
        (*number, checks)
    };
    waiting.iter().map(count).collect()
}

/// The use of a machine's disks. Weak references do not keep them open.
#[derive(Debug)]
struct Activity {
    disks: Vec<Weak<BlockDevice>>,
    answered: u64,
}

impl Activity {
    fn of(disks: &[Arc<BlockDevice>]) -> Self {
        Self {
            disks: disks.iter().map(Arc::downgrade).collect(),
            answered: 0,
        }
    }

    /// Returns true if a disk was used since the last call, or is being used: then the machine
    /// waits for this process.
    fn is_seen(&mut self) -> bool {
        let disks: Vec<_> = self.disks.iter().filter_map(Weak::upgrade).collect();
        let answered = disks.iter().fold(0_u64, |sum, disk| {
            sum.wrapping_add(disk.answered_requests())
        });
        let before = std::mem::replace(&mut self.answered, answered);
        before != answered || disks.iter().any(|disk| disk.is_working())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the checks of request 1 after `count` checks that saw it.
    fn after(count: u32, is_active: bool) -> Checks {
        let seen = (0..count).fold(HashMap::new(), |seen, _| {
            count_checks(&[1], &seen, is_active)
        });
        seen[&1]
    }

    #[test]
    fn a_machine_that_works_has_more_time() {
        assert!(!after(CHECKS_MAX, false).are_over());
        assert!(after(CHECKS_MAX + 1, false).are_over());
        assert!(!after(BUSY_CHECKS_MAX, true).are_over());
        assert!(after(BUSY_CHECKS_MAX + 1, true).are_over());
        // Another request is counted anew.
        let seen = count_checks(&[2], &HashMap::from([(1, after(5, false))]), false);
        assert_eq!(seen, HashMap::from([(2, Checks { all: 1, idle: 1 })]));
    }
}
