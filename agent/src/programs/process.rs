//! A running program.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use diskfs_remote::protocol::TerminalSize;
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
use super::terminal::{Terminal, resize};

/// The character that ends the input at a terminal: Ctrl-D.
const END_OF_INPUT: &[u8] = b"\x04";

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
    /// Our end of the terminal, if the program has one.
    terminal: Option<OwnedFd>,
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
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (pid, child) = spawn(command)?;
        let missing = || io::Error::other("the child process has no pipes");
        let input = OwnedFd::from(child.stdin.ok_or_else(missing)?);
        let outputs = Outputs {
            output: Some(child.stdout.ok_or_else(missing)?.into()),
            error: Some(child.stderr.ok_or_else(missing)?.into()),
        };
        let ours = [&outputs.output, &outputs.error];
        for end in ours.into_iter().flatten().chain([&input]) {
            fcntl_setfl(end, OFlags::NONBLOCK)?;
        }
        Self::new(pid, input, outputs, None)
    }

    /// Starts the program at a terminal, as the leader of a session.
    pub(super) fn start_at(command: &mut Command, terminal: Terminal) -> io::Result<Self> {
        let Terminal { ours, programs } = terminal;
        command
            .stdin(programs.try_clone()?)
            .stdout(programs.try_clone()?)
            .stderr(programs);
        let (pid, _) = spawn(command)?;
        // The command has the program's end open, which would hide that the program closes it.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let outputs = Outputs {
            output: Some(ours.try_clone()?),
            error: None,
        };
        Self::new(pid, ours.try_clone()?, outputs, Some(ours))
    }

    fn new(
        pid: Pid,
        input: OwnedFd,
        outputs: Outputs,
        terminal: Option<OwnedFd>,
    ) -> io::Result<Self> {
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
            terminal,
            outputs: Mutex::new(outputs),
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

/// Starts a program as a child that a thread will wait for.
fn spawn(command: &mut Command) -> io::Result<(Pid, Child)> {
    let mut known = lock(&KNOWN);
    let child = command.spawn()?;
    let invalid = || io::Error::other("the child process has no process id");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(invalid)?;
    known.insert(pid.as_raw_nonzero().get());
    Ok((pid, child))
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
        let input = lock(&self.input).take();
        if let (Some(_), Some(terminal)) = (input, &self.terminal) {
            // It fails only if nobody reads so much input that it does not fit.
            let _ = rustix::io::write(terminal, END_OF_INPUT);
        }
        Ok(())
    }

    fn signal(&self, signal: i32) -> Result<()> {
        let signal = crate::kernel_calls::signal(signal)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "invalid signal number"))?;
        self.send(signal)
            .map_err(|errno| io_error("cannot send the signal")(errno.into()))
    }

    fn resize(&self, size: TerminalSize) -> Result<()> {
        let none = || Error::new(ErrorKind::Invalid, "the program has no terminal");
        resize(self.terminal.as_ref().ok_or_else(none)?, size)
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
                // A terminal that no program has open any more is told so.
                Ok(0) | Err(Errno::IO) => {
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
