//! A machine's process: what it says, how it ended, and that it ends.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::confine::Confinement;
use diskfs_disk::{Error, Result};

/// What the lines of a machine's console are logged as.
const CONSOLE: &str = "diskfs::vm::console";

/// How many of the last lines of a machine's console are kept, to say why it ended.
const LOG_LINES: usize = 40;
/// How long the rest of what it said is waited for, once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How much of one line.
const LOG_LINE_BYTES: u64 = 400;

/// A running process. It is killed when this is dropped, and when this process ends, however it does.
#[derive(Debug)]
pub(super) struct Process {
    pidfd: OwnedFd,
    /// To see how much of it was not taken yet.
    output: io::PipeReader,
    state: Arc<State>,
    /// Started the process and waits for it: the kernel kills a child when the thread that made it
    /// ends.
    supervisor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    status: Option<ExitStatus>,
    log: Vec<String>,
    /// How many bytes of what it said were taken.
    heard: u64,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Starts a program whose standard output and error are its log.
    ///
    /// # Errors
    /// When it can't be run.
    pub(super) fn start(mut command: Command, confinement: &Confinement) -> Result<Self> {
        let program = command.get_program().to_owned();
        confinement.apply_to(&mut command);
        let (said, log) = io::pipe()?;
        let output = said.try_clone()?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let state = Arc::new(State::default());
        let (tell, told) = mpsc::sync_channel(1);
        let supervised = Arc::clone(&state);
        let supervisor = thread::Builder::new()
            .name("microvm".to_owned())
            .spawn(move || {
                let spawned = command.spawn();
                drop(command); // With it our end of the log's pipe.
                supervise(spawned, said, &supervised, &tell);
            })?;
        let pidfd = told
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("its supervisor ended")))
            .map_err(|error| Error::from(error).in_file(&program))?;
        Ok(Self {
            pidfd,
            output,
            state,
            supervisor: Some(supervisor),
        })
    }

    /// Kills it, unless it has ended.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL); // It may have ended meanwhile.
    }

    /// Waits until it ends; `false` when it did not in time.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now().checked_add(at_most);
        let mut inner = self.state.lock();
        while inner.status.is_none() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                return false;
            };
            let waited = self.state.ended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// How it ended, once it has.
    pub(super) fn ending(&self) -> Option<Ending> {
        let inner = self.state.lock();
        let status = inner.status?;
        Some(Ending {
            status,
            last_words: last_words(&inner.log),
        })
    }

    /// The last lines that it said.
    fn log(&self) -> Vec<String> {
        self.state.lock().log.clone()
    }

    /// How many bytes it has said so far, whether or not they are in the log yet.
    pub(super) fn said(&self) -> u64 {
        let inner = self.state.lock();
        // Without an end of it, nobody says anything any more.
        let on_the_way = ioctl_fionread(&self.output).unwrap_or_default();
        inner.heard.saturating_add(on_the_way)
    }

    /// Logs them, for who wants to know why it failed.
    pub(super) fn tell_log(&self) {
        for line in self.log() {
            tracing::info!(target: CONSOLE, "{line}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join(); // It has nothing to tell that wasn't logged.
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    status: ExitStatus,
    last_words: Option<String>,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.signal(), self.status.code()) {
            (Some(signal), _) => write!(f, "killed by signal {signal}")?,
            (None, Some(code)) => write!(f, "ended with exit code {code}")?,
            (None, None) => f.write_str("ended")?,
        }
        match &self.last_words {
            Some(words) => write!(f, ", saying `{words}`"),
            None => Ok(()),
        }
    }
}

/// What tells most of why a kernel died: its panic, or else the last thing it said.
fn last_words(log: &[String]) -> Option<String> {
    let panic = log.iter().find(|line| line.contains("panic"));
    panic.or(log.last()).cloned()
}

fn supervise(
    spawned: io::Result<Child>,
    said: io::PipeReader,
    state: &Arc<State>,
    tell: &mpsc::SyncSender<io::Result<OwnedFd>>,
) {
    let (mut child, pidfd) = match spawned.and_then(with_pidfd) {
        Ok(started) => started,
        Err(error) => {
            let _ = tell.send(Err(error)); // Nobody waits any more when that fails.
            return;
        }
    };
    let _ = tell.send(Ok(pidfd));
    let heard = Arc::clone(state);
    let (finish, finished) = mpsc::sync_channel::<()>(0);
    let log = thread::Builder::new()
        .name("microvm log".to_owned())
        .spawn(move || {
            keep_log(said, &heard);
            drop(finish);
        });
    let status = child.wait();
    // It leads a group of its own, of which some may be left.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL); // As a rule none is.
    }
    if log.is_ok() {
        // Its last words, unless somebody else holds on to its output.
        let _ = finished.recv_timeout(LAST_WORDS);
    }
    let mut inner = state.lock();
    inner.status = Some(status.unwrap_or_default());
    state.ended.notify_all();
}

fn with_pidfd(mut child: Child) -> io::Result<(Child, OwnedFd)> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let opened = pid
        .ok_or_else(|| io::Error::other("a process without a number"))
        .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
    match opened {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// What a process says, of which each byte is counted as it is taken.
struct Heard<'s> {
    said: io::PipeReader,
    state: &'s State,
}

impl Read for Heard<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Not under the lock, which is held for moments.
        poll(&mut [PollFd::new(&self.said, PollFlags::IN)], None)?;
        let mut inner = self.state.lock();
        let len = self.said.read(buf)?;
        let more = u64::try_from(len).unwrap_or_default();
        inner.heard = inner.heard.saturating_add(more);
        Ok(len)
    }
}

/// Keeps the last lines until the process has closed its log, which it does when it ends.
fn keep_log(said: io::PipeReader, state: &State) {
    let mut said = BufReader::new(Heard { said, state });
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut said)
            .take(LOG_LINE_BYTES)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() {
            continue;
        }
        tracing::debug!(target: CONSOLE, "{text}");
        let mut inner = state.lock();
        if inner.log.len() >= LOG_LINES {
            inner.log.remove(0);
        }
        inner.log.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let confinement = Confinement {
            read: vec!["/".into()],
            write: vec![],
            one_cpu: true,
            network: false,
        };
        Process::start(command, &confinement).unwrap()
    }

    #[test]
    fn the_ending_is_told_with_the_last_words() {
        let process = shell("echo all is well; echo 'Kernel panic: no'; echo bye; exit 3");
        assert!(process.wait(SOON));
        let ending = process.ending().unwrap().to_string();
        assert_eq!(ending, "ended with exit code 3, saying `Kernel panic: no`");
        assert_eq!(process.log().len(), 3);
    }

    #[test]
    fn what_it_said_counts_before_anybody_has_heard_it() {
        let process = shell("printf 12345; sleep 1000");
        let deadline = Instant::now() + SOON;
        while process.said() == 0 {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        assert_eq!(process.said(), 5);
    }

    #[test]
    fn it_is_killed_and_then_gone() {
        let process = shell("sleep 1000; echo never");
        assert!(!process.wait(Duration::from_millis(10)));
        process.kill();
        assert!(process.wait(SOON));
        assert_eq!(process.ending().unwrap().to_string(), "killed by signal 9");
    }

    #[test]
    fn it_ends_with_what_it_belongs_to() {
        let process = shell("echo $$; exec sleep 1000");
        while process.log().is_empty() {
            thread::yield_now();
        }
        let pid = process.log().remove(0);
        drop(process);
        assert!(!std::path::Path::new("/proc").join(pid).exists());
    }

    #[test]
    fn it_can_write_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let process = shell(&format!("echo x > {}", file.display()));
        assert!(process.wait(SOON));
        // Where the host has no Landlock, namespaces alone don't keep it from its own user's files.
        if landlock_is_there() {
            assert!(!file.exists());
        }
    }

    fn landlock_is_there() -> bool {
        std::fs::read_to_string("/sys/kernel/security/lsm")
            .is_ok_and(|list| list.contains("landlock"))
    }

    #[test]
    fn what_is_missing_is_named() {
        let command = Command::new("/no/such/kernel");
        let error = Process::start(command, &Confinement::default()).unwrap_err();
        assert!(error.to_string().contains("/no/such/kernel"), "{error}");
    }
}
