//! Reaping of orphaned processes: PID 1 becomes their parent.

use std::sync::Once;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::process::is_known;
use crate::kernel_calls::ended_child;

/// The pause after peeking at a child that another thread waits for.
const PEEK_PAUSE: Duration = Duration::from_millis(10);
/// The interval of checks whether there are children again.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Starts the thread that reaps orphaned children.
pub(super) fn start_reaper() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        thread::spawn(|| {
            loop {
                reap_one();
            }
        });
    });
}

fn reap_one() {
    // Peek before reaping: a child that we started ourselves is waited for by its owner.
    match ended_child() {
        Ok(pid) if is_known(pid) => thread::sleep(PEEK_PAUSE),
        Ok(pid) => {
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).ok();
        }
        Err(_) => thread::sleep(CHECK_INTERVAL),
    }
}

/// Returns true if this process has any children.
pub(super) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}
