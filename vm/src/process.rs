//! The process of a machine: its log, how it ended, and killing it.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

use super::confine::Confinement;
use diskfs_disk::{Error, Result};

/// The log target for the lines of a machine's console.
const CONSOLE: &str = "diskfs::vm::console";

/// The number of last lines of a machine's console that are kept to explain its end.
const LOG_LINES: usize = 40;
/// The timeout for the rest of the log after the process has ended.
const LOG_END_TIMEOUT: Duration = Duration::from_millis(200);
/// The maximum length of a log line that is kept.
const LOG_LINE_BYTES: u64 = 400;

/// A running process. It is killed when this is dropped, and when this process ends in any way.
#[derive(Debug)]
pub(super) struct Process {
    pidfd: OwnedFd,
    /// The pipe with the log, kept to count the bytes that were not read yet.
    output: io::PipeReader,
    state: Arc<SharedState>,
    /// The thread that started the process and waits for it: the kernel kills a child when the
    /// thread that created it ends.
    supervisor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SharedState {
    inner: Mutex<Inner>,
    ended: Condvar,
}

/// A function that is called once when the process has ended.
type OnEnd = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inner {
    status: Option<ExitStatus>,
    on_end: Option<OnEnd>,
    /// The signal that stopped the process, which was then killed: a stopped machine answers
    /// nothing, and its callers would wait for it.
    stopped_by: Option<i32>,
    log: Vec<String>,
    /// The number of log bytes that were read.
    log_bytes_read: u64,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("status", &self.status)
            .field("stopped_by", &self.stopped_by)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Starts a program whose standard output and error go to its log.
    ///
    /// # Errors
    /// Fails if the program can't be run.
    pub(super) fn start(mut command: Command, confinement: &Confinement) -> Result<Self> {
        let program = command.get_program().to_owned();
        confinement.apply_to(&mut command);
        let (log_pipe, log) = io::pipe()?;
        let output = log_pipe.try_clone()?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let state = Arc::new(SharedState::default());
        let (sender, receiver) = mpsc::sync_channel(1);
        let supervised = Arc::clone(&state);
        let supervisor = thread::Builder::new()
            .name("microvm".to_owned())
            .spawn(move || {
                let spawned = command.spawn();
                drop(command); // This closes our write end of the log's pipe.
                supervise(spawned, log_pipe, &supervised, &sender);
            })?;
        let pidfd = receiver
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the supervisor thread ended")))
            .map_err(|error| Error::from(error).in_file(&program))?;
        Ok(Self {
            pidfd,
            output,
            state,
            supervisor: Some(supervisor),
        })
    }

    /// Kills the process, unless it has ended.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL); // It may have ended meanwhile.
    }

    /// Calls `on_end` when the process has ended, or at once if it has. There is one such function.
    pub(super) fn on_end(&self, on_end: impl FnOnce() + Send + 'static) {
        let mut inner = self.state.lock();
        if inner.status.is_none() {
            inner.on_end = Some(Box::new(on_end));
            return;
        }
        drop(inner);
        on_end();
    }

    /// Waits until the process ends. Returns false if it did not in time.
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

    /// Returns how the process ended; `None` while it runs.
    pub(super) fn ending(&self) -> Option<Ending> {
        let inner = self.state.lock();
        let status = inner.status?;
        Some(Ending {
            status,
            stopped_by: inner.stopped_by,
            last_log_line: last_log_line(&inner.log),
        })
    }

    /// Returns the last lines of its log.
    fn log(&self) -> Vec<String> {
        self.state.lock().log.clone()
    }

    /// Returns the number of bytes that it has written to its log, including those not read yet.
    pub(super) fn log_bytes(&self) -> u64 {
        let inner = self.state.lock();
        // At the end of the log, the pipe is empty.
        let on_the_way = ioctl_fionread(&self.output).unwrap_or_default();
        inner.log_bytes_read.saturating_add(on_the_way)
    }

    /// Logs the last lines, to explain a failure.
    pub(super) fn print_log(&self) {
        for line in self.log() {
            tracing::info!(target: CONSOLE, "{line}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join(); // The thread has already logged its errors.
        }
    }
}

/// The exit status of a process, with its last log line.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    status: ExitStatus,
    /// The signal that stopped it before it was killed.
    stopped_by: Option<i32>,
    last_log_line: Option<String>,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.signal(), self.status.code()) {
            _ if let Some(signal) = self.stopped_by => {
                write!(f, "was stopped by signal {signal}, and then killed")?;
            }
            (Some(signal), _) => write!(f, "was killed by signal {signal}")?,
            (None, Some(code)) => write!(f, "ended with exit code {code}")?,
            (None, None) => f.write_str("ended")?,
        }
        match &self.last_log_line {
            Some(words) => write!(f, "; its last words: `{words}`"),
            None => Ok(()),
        }
    }
}

/// Returns the line that best explains why a kernel died: its panic, or else its last line.
fn last_log_line(log: &[String]) -> Option<String> {
    let panic = log.iter().find(|line| line.contains("panic"));
    panic.or(log.last()).cloned()
}

fn supervise(
    spawned: io::Result<Child>,
    output: io::PipeReader,
    state: &Arc<SharedState>,
    started: &mpsc::SyncSender<io::Result<OwnedFd>>,
) {
    let (mut child, pidfd) = match spawned.and_then(with_pidfd) {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error)); // Fails if nobody waits any more.
            return;
        }
    };
    let waited = pidfd.try_clone();
    let _ = started.send(Ok(pidfd));
    let log_state = Arc::clone(state);
    let (finish, finished) = mpsc::sync_channel::<()>(0);
    let log = thread::Builder::new()
        .name("microvm log".to_owned())
        .spawn(move || {
            keep_log(output, &log_state);
            drop(finish);
        });
    if let Ok(pidfd) = waited {
        kill_when_stopped(pidfd.as_fd(), state);
    }
    let status = child.wait();
    // The process leads a process group; some of its members may still run.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL); // Usually the group is empty.
    }
    if log.is_ok() {
        // Waits for the rest of the log, unless another process keeps the pipe open.
        let _ = finished.recv_timeout(LOG_END_TIMEOUT);
    }
    let mut inner = state.lock();
    inner.status = Some(status.unwrap_or_default());
    let on_end = inner.on_end.take();
    drop(inner);
    state.ended.notify_all();
    if let Some(on_end) = on_end {
        on_end();
    }
}

/// Waits until the process has ended, without reaping it. If it is stopped, kills it.
fn kill_when_stopped(pidfd: BorrowedFd<'_>, state: &SharedState) {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let changed = waitid(WaitId::PidFd(pidfd), ended | WaitIdOptions::STOPPED);
    let stopped_by = changed.ok().flatten().and_then(|it| it.stopping_signal());
    if let Some(signal) = stopped_by {
        state.lock().stopped_by = Some(signal);
        let _ = pidfd_send_signal(pidfd, Signal::KILL); // It may have ended meanwhile.
        let _ = waitid(WaitId::PidFd(pidfd), ended); // Otherwise the caller waits for it.
    }
}

fn with_pidfd(mut child: Child) -> io::Result<(Child, OwnedFd)> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let opened = pid
        .ok_or_else(|| io::Error::other("the child process has no process id"))
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

/// A reader of the log that counts each byte when it is read.
struct CountedLog<'s> {
    output: io::PipeReader,
    state: &'s SharedState,
}

impl Read for CountedLog<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Outside the lock, which is held only for moments.
        poll(&mut [PollFd::new(&self.output, PollFlags::IN)], None)?;
        let mut inner = self.state.lock();
        let len = self.output.read(buf)?;
        let more = u64::try_from(len).unwrap_or_default();
        inner.log_bytes_read = inner.log_bytes_read.saturating_add(more);
        Ok(len)
    }
}

/// Keeps the last lines until the log's pipe is closed, which happens when the process ends.
fn keep_log(output: io::PipeReader, state: &SharedState) {
    let mut lines = BufReader::new(CountedLog { output, state });
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines)
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
            ..Confinement::default()
        };
        Process::start(command, &confinement).unwrap()
    }

    #[test]
    fn the_ending_is_told_with_the_last_words() {
        let process = shell("echo all is well; echo 'Kernel panic: no'; echo bye; exit 3");
        assert!(process.wait(SOON));
        let ending = process.ending().unwrap().to_string();
        assert_eq!(
            ending,
            "ended with exit code 3; its last words: `Kernel panic: no`"
        );
        assert_eq!(process.log().len(), 3);
    }

    #[test]
    fn what_it_said_counts_before_anybody_has_heard_it() {
        let process = shell("printf 12345; sleep 1000");
        let deadline = Instant::now() + SOON;
        while process.log_bytes() == 0 {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        assert_eq!(process.log_bytes(), 5);
    }

    #[test]
    fn it_is_killed_and_then_gone() {
        let process = shell("sleep 1000; echo never");
        assert!(!process.wait(Duration::from_millis(10)));
        process.kill();
        assert!(process.wait(SOON));
        assert_eq!(
            process.ending().unwrap().to_string(),
            "was killed by signal 9"
        );
    }

    #[test]
    fn one_that_is_stopped_is_killed_at_once() {
        let process = shell("kill -STOP $$; echo never");
        assert!(process.wait(SOON));
        assert_eq!(
            process.ending().unwrap().to_string(),
            "was stopped by signal 19, and then killed"
        );
    }

    #[test]
    fn its_end_is_told_before_and_after_it() {
        let process = shell("read -r line; exit 0");
        let (told, heard) = mpsc::channel();
        let tell = || {
            let told = told.clone();
            move || told.send(()).unwrap()
        };
        process.on_end(tell());
        heard.recv_timeout(SOON).unwrap();
        process.on_end(tell());
        heard.recv_timeout(SOON).unwrap();
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
        // Without Landlock, namespaces alone don't protect the files of the host's own user.
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
