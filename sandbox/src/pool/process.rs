//! The process of a worker, seen from its parent.

use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;

use super::error::printable;
use super::{JobError, PoolOptions};
use crate::message::ToWorker;
use crate::wire::Outgoing;

/// The beginning of the message with which Rust aborts if an allocation fails.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// A running worker. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    /// `None` once somebody else waits for its end.
    child: Option<Child>,
    pub(super) socket: UnixStream,
    /// The standard error of the process. Nothing reads it before the end, and a full pipe takes no more.
    output: PipeReader,
}

impl Process {
    /// Starts a process. The kernel kills it when the calling thread ends.
    pub(super) fn start(options: &PoolOptions) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (output, their_output) = io::pipe()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        fcntl_setfl(&their_output, OFlags::NONBLOCK)?;
        let setup = ToWorker::Setup {
            limits: options.limits.clone(),
            strictness: options.strictness,
        };
        Outgoing::new(&setup, b"", None)?.send_all(&ours)?;
        ours.set_nonblocking(true)?;
        let child = Command::new(&options.program)
            .arg0("diskfs")
            .args(&options.arguments)
            .env_clear()
            .current_dir("/")
            // Signals of the terminal are for the parent.
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(their_output)
            .spawn()?;
        Ok(Self {
            child: Some(child),
            socket: ours,
            output,
        })
    }

    /// Kills the process, unless it has ended.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // It fails only if the process has ended.
        }
    }

    /// Kills the process and returns its child, which somebody must wait for.
    pub(super) fn into_child(mut self) -> Option<Child> {
        self.kill();
        self.child.take()
    }

    /// Waits for the end of a process that has closed its socket. It is killed if it still runs.
    pub(super) fn ending(mut self) -> JobError {
        self.kill();
        let Some(mut child) = self.child.take() else {
            return JobError::protocol("it has ended");
        };
        match child.wait() {
            Ok(status) => self.explain(status),
            Err(error) => JobError::protocol(error),
        }
    }

    fn explain(&mut self, status: ExitStatus) -> JobError {
        let mut printed = Vec::new();
        let _ = self.output.read_to_end(&mut printed); // What was read until an error counts.
        let printed = String::from_utf8_lossy(&printed);
        let last_words = printed.lines().rev().find(|line| !line.is_empty());
        let is_out_of_memory = printed.contains(ALLOCATION_FAILED);
        let last_words = last_words.map(printable);
        match status.signal() {
            Some(signal) if signal == Signal::XCPU.as_raw() => JobError::OutOfProcessorTime,
            Some(signal) if signal == Signal::ABORT.as_raw() && is_out_of_memory => {
                JobError::OutOfMemory
            }
            Some(signal) => JobError::Killed { signal, last_words },
            None => JobError::Exited {
                code: status.code().unwrap_or_default(),
                last_words,
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = self.child.take() {
            let _ = child.wait(); // It was killed.
        }
    }
}
