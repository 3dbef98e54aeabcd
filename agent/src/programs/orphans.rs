//! What programs leave behind: PID 1 is the parent of whoever has lost its own.

use std::sync::Once;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::process::is_known;
use crate::kernel_calls::ended_child;

/// How long an orphan waits when another child has ended, too, whom somebody else waits for.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it is looked whether there are children again.
const IDLE: Duration = Duration::from_millis(200);

/// Buries orphans from now on.
pub(super) fn bury() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        thread::spawn(|| {
            loop {
                bury_one();
            }
        });
    });
}

fn bury_one() {
    // It is looked at before it is taken: how one of ours ended is for who started it.
    match ended_child() {
        Ok(pid) if is_known(pid) => thread::sleep(PAUSE),
        Ok(pid) => {
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).ok();
        }
        Err(_) => thread::sleep(IDLE),
    }
}

/// Whether this process has any children.
pub(super) fn are_left() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}
