//! A running program.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use diskfs_remote::server::{Ended, ProgramEvent, Running, Stream};
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use super::io_error;

/// The children that a thread waits for. Locked while one is started, so that the orphan reaper
/// sees it.
static KNOWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a thread waits for this child.
pub(super) fn is_known(pid: Pid) -> bool {
    lock(&KNOWN).contains(&pid.as_raw_nonzero().get())
}

/// A program with our ends of its pipes.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    input: Mutex<Option<OwnedFd>>,
    outputs: Mutex<Outputs>,
    /// A pipe that hangs up when the program has ended.
    end: OwnedFd,
    ending: Arc<Ending>,
}

#[derive(Debug)]
struct Outputs {
    output: Option<OwnedFd>,
    error: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Ending {
    ended: OnceLock<Ended>,
    /// Locked while a signal is sent, and while the child is reaped and its process id becomes
    /// free.
    number: Mutex<()>,
}

impl Process {
    /// Starts the program as the leader of a process group.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut known = lock(&KNOWN);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the child process has no pipes");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(missing)?;
        known.insert(pid.as_raw_nonzero().get());
        drop(known);
        let input = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
        let output = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
        let error = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
        for end in [&input, &output, &error] {
            fcntl_setfl(end, OFlags::NONBLOCK)?;
        }
        let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
        let ending = Arc::new(Ending::default());
        let waiting = Arc::clone(&ending);
        thread::Builder::new().spawn(move || {
            waiting.wait_for(pid);
            drop(held);
        })?;
        Ok(Self {
            pid,
            input: Mutex::new(Some(input)),
            outputs: Mutex::new(Outputs {
                output: Some(output),
                error: Some(error),
            }),
            end,
            ending,
        })
    }

    /// Returns the exit status, once the program has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ending.ended.get().copied()
    }

    /// Sends a signal to the program's process group.
    pub(super) fn send(&self, signal: Signal) -> rustix::io::Result<()> {
        let _number = lock(&self.ending.number);
        if self.ended().is_some() {
            return Ok(());
        }
        match kill_process_group(self.pid, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => sent,
        }
    }
}

impl Ending {
    fn wait_for(&self, pid: Pid) {
        // Peek first: until the child is reaped, its process id is not reused.
        let status = loop {
            match waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            ) {
                Err(Errno::INTR) => {}
                status => break status.ok().flatten(),
            }
        };
        let _number = lock(&self.number);
        // Set the status before the process id may be reused.
        self.ended.set(ended_by(status.as_ref())).ok();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).ok();
        lock(&KNOWN).remove(&pid.as_raw_nonzero().get());
    }
}

fn ended_by(status: Option<&WaitIdStatus>) -> Ended {
    let signal = status.and_then(WaitIdStatus::terminating_signal);
    let exited = status.and_then(WaitIdStatus::exit_status);
    match (signal, exited) {
        (Some(signal), _) => Ended::Killed(u8::try_from(signal).unwrap_or(9)),
        (None, status) => Ended::Exited(status.and_then(|s| u8::try_from(s).ok()).unwrap_or(1)),
    }
}

impl Running for Process {
    fn output(&self, room: &mut [u8]) -> Result<ProgramEvent> {
        let mut outputs = lock(&self.outputs);
        loop {
            // Check this before reading: all output from before the end is then in the pipes.
            let ended = self.ended();
            for stream in [Stream::Output, Stream::Error] {
                if let Some(wrote) = outputs.read(stream, room)? {
                    return Ok(ProgramEvent::Wrote(stream, wrote));
                }
            }
            if let Some(ended) = ended {
                return Ok(ProgramEvent::Ended(ended));
            }
            outputs.wait(self.end.as_fd())?;
        }
    }

    fn input(&self, data: &[u8]) -> Result<usize> {
        let input = lock(&self.input);
        let gone = || {
            Error::new(
                ErrorKind::Io,
                "the program does not read its input any more",
            )
        };
        let input = input.as_ref().ok_or_else(gone)?;
        loop {
            match rustix::io::write(input, data) {
                Ok(written) => return Ok(written),
                Err(Errno::AGAIN) => wait(&[(input.as_fd(), PollFlags::OUT)])?,
                Err(Errno::INTR) => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    fn close_input(&self) -> Result<()> {
        lock(&self.input).take();
        Ok(())
    }

    fn signal(&self, signal: i32) -> Result<()> {
        let signal = crate::kernel_calls::signal(signal)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "invalid signal number"))?;
        self.send(signal)
            .map_err(|errno| io_error("cannot send the signal")(errno.into()))
    }
}

impl Outputs {
    /// Reads available output; `None` if there is none. Closes a stream that has ended.
    fn read(&mut self, stream: Stream, room: &mut [u8]) -> Result<Option<usize>> {
        let slot = match stream {
            Stream::Output => &mut self.output,
            Stream::Error => &mut self.error,
        };
        let Some(pipe) = slot else { return Ok(None) };
        loop {
            match rustix::io::read(&*pipe, &mut *room) {
                Ok(0) => {
                    *slot = None;
                    return Ok(None);
                }
                Ok(read) => return Ok(Some(read)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io_error("cannot read a program's output")(errno.into())),
            }
        }
    }

    fn wait(&self, end: BorrowedFd<'_>) -> Result<()> {
        let pipes = [&self.output, &self.error].into_iter().flatten();
        let mut all: Vec<_> = pipes.map(|pipe| (pipe.as_fd(), PollFlags::IN)).collect();
        all.push((end, PollFlags::IN));
        wait(&all)
    }
}

/// Waits until one of these descriptors is ready.
fn wait(what: &[(BorrowedFd<'_>, PollFlags)]) -> Result<()> {
    let mut wanted: Vec<_> = what
        .iter()
        .map(|(fd, flags)| PollFd::new(fd, *flags))
        .collect();
    match poll(&mut wanted, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(io_error("cannot wait for a program")(errno.into())),
    }
}
