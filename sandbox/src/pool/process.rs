//! A process of the pool, seen from its parent.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use super::error::printable;
use super::{JobError, PoolOptions};
use crate::message::{ForkWorker, ToWorker};
use crate::wire::Outgoing;

/// The time that a process may take to start and to confine itself, on a busy host.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(30);
/// The beginning of the message with which Rust aborts if an allocation fails.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// A zygote or a worker. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    /// `None` once somebody else waits for its end.
    child: Option<Child>,
    pub(super) socket: UnixStream,
    /// The standard error of the process. Nothing reads it before the end, and a full pipe takes no more.
    output: PipeReader,
}

impl Process {
    /// Executes the program, as a zygote. The kernel kills it when the calling thread ends.
    pub(super) fn start(options: &PoolOptions) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (output, their_output) = output()?;
        ours.set_read_timeout(Some(START_DEADLINE))?;
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
            child: Some(Child(Pid::from_child(&child))),
            socket: ours,
            output,
        })
    }

    /// Forks a worker from this zygote. It is a child of the thread that started the zygote, and the
    /// kernel kills it when that thread ends.
    pub(super) fn fork(&self, options: &PoolOptions) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (output, their_output) = output()?;
        let setup = ToWorker::Setup {
            limits: options.limits.clone(),
            strictness: options.strictness,
        };
        Outgoing::new(&setup, b"", Some(their_output.into()))?.send_all(&ours)?;
        ours.set_nonblocking(true)?;
        Outgoing::new(&ForkWorker, b"", Some(theirs.into()))?.send_all(&self.socket)?;
        let mut forked = [0; 4];
        (&self.socket).read_exact(&mut forked)?;
        let forked = i32::from_le_bytes(forked);
        let Some(pid) = Pid::from_raw(forked).filter(|_| forked > 0) else {
            return Err(io::Error::from_raw_os_error(forked.saturating_neg()));
        };
        Ok(Self {
            child: Some(Child(pid)),
            socket: ours,
            output,
        })
    }

    /// Kills the process, unless it has ended.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &self.child {
            child.kill();
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
        let Some(child) = self.child.take() else {
            return JobError::protocol("it has ended");
        };
        match child.wait() {
            Ok(status) => self.explain(status),
            Err(error) => JobError::protocol(error),
        }
    }

    fn explain(&mut self, status: WaitStatus) -> JobError {
        let mut printed = Vec::new();
        let _ = self.output.read_to_end(&mut printed); // What was read until an error counts.
        let printed = String::from_utf8_lossy(&printed);
        let last_words = printed.lines().rev().find(|line| !line.is_empty());
        let is_out_of_memory = printed.contains(ALLOCATION_FAILED);
        let last_words = last_words.map(printable);
        match status.terminating_signal() {
            Some(signal) if signal == Signal::XCPU.as_raw() => JobError::OutOfProcessorTime,
            Some(signal) if signal == Signal::ABORT.as_raw() && is_out_of_memory => {
                JobError::OutOfMemory
            }
            Some(signal) => JobError::Killed { signal, last_words },
            None => JobError::Exited {
                code: status.exit_status().unwrap_or_default(),
                last_words,
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(child) = self.child.take() {
            let _ = child.wait(); // It was killed.
        }
    }
}

/// A child of this process that nobody has waited for yet, so its process id belongs to it.
#[derive(Debug)]
pub(super) struct Child(Pid);

impl Child {
    fn kill(&self) {
        let _ = kill_process(self.0, Signal::KILL); // It fails only if the process has ended.
    }

    /// Waits for the end of the process.
    pub(super) fn wait(self) -> io::Result<WaitStatus> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(status),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Creates the standard error of a process. It takes no more once it is full.
fn output() -> io::Result<(PipeReader, PipeWriter)> {
    let (ours, theirs) = io::pipe()?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    fcntl_setfl(&theirs, OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}
