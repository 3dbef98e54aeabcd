//! Waiting for the connection of a machine.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::Process;
use diskfs_disk::{Error, ErrorKind, Result};

/// The longest wait for the end of the process after the end of the stream, to report how it ended.
pub(super) const ENDING: Duration = Duration::from_secs(1);
/// The interval of checks that a machine which has not connected yet is still running.
const LOOK: Duration = Duration::from_millis(20);

/// Accepts the machine's connection. Fails if the machine ends or the deadline passes.
pub(super) fn accept(
    listener: &UnixListener,
    process: &Process,
    began: Instant,
    deadline: Duration,
) -> Result<UnixStream> {
    let timeout = Timespec::try_from(LOOK).unwrap_or_default();
    loop {
        let mut wanted = [PollFd::new(listener, PollFlags::IN)];
        if poll(&mut wanted, Some(&timeout)).map_err(io::Error::from)? > 0 {
            return Ok(listener.accept()?.0);
        }
        if process.ending().is_some() || began.elapsed() > deadline {
            return Err(no_answer(process, deadline, "the machine did not connect"));
        }
    }
}

/// Returns the error for a machine that did not answer, with the reason.
pub(super) fn no_answer(
    process: &Process,
    deadline: Duration,
    error: impl std::fmt::Display,
) -> Error {
    let ended = process.wait(ENDING);
    process.print_log();
    let reason = match process.ending().filter(|_| ended) {
        Some(ending) => format!("the kernel did not start: its process {ending}"),
        None => format!("no answer within {} s: {error}", deadline.as_secs_f32()),
    };
    Error::new(ErrorKind::Unsupported, reason)
}
