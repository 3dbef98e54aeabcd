//! The thread that starts processes and waits for their end.
//!
//! It is one thread for the whole life of a pool: the kernel kills a worker when the thread that
//! started it ends.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::process::{Child, Process};
use super::zygote::Zygote;
use super::{JobError, PoolOptions};

#[derive(Debug)]
pub(super) struct Spawner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ready_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The processes that wait for a job.
    ready: VecDeque<Process>,
    /// The number of callers that wait for a process.
    waiting: usize,
    /// The killed processes to wait for.
    ended: Vec<Child>,
    /// The number of failures, and the last one.
    failures: u64,
    last_failure: String,
    /// True after a failure, until a caller needs a process.
    pauses: bool,
    /// True if the next worker comes from a new zygote.
    renews_zygote: bool,
    stops: bool,
}

impl Spawner {
    pub(super) fn start(options: PoolOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let its_own = Arc::clone(&shared);
        let ready_max = options.ready;
        let thread = thread::Builder::new()
            .name("sandbox pool".to_owned())
            .spawn(move || its_own.work(&options))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            ready_max,
        })
    }

    /// Returns the number of processes that wait at most.
    pub(super) fn ready_max(&self) -> usize {
        self.ready_max
    }

    /// Takes a process, or waits until one is started.
    pub(super) fn take(&self) -> Result<Process, JobError> {
        let mut state = self.shared.lock();
        state.waiting = state.waiting.saturating_add(1);
        let failures = state.failures;
        self.shared.changed.notify_all();
        let taken = loop {
            if let Some(process) = state.ready.pop_front() {
                break Ok(process);
            }
            if state.failures > failures {
                break Err(JobError::start(&state.last_failure));
            }
            state = self.shared.wait(state);
        };
        state.waiting = state.waiting.saturating_sub(1);
        taken
    }

    /// Ends a process that is needed no longer.
    pub(super) fn end(&self, process: Process) {
        if let Some(child) = process.into_child() {
            self.shared.lock().ended.push(child);
            self.shared.changed.notify_all();
        }
    }

    /// Lets later workers come from a new zygote, after one ended by itself: an attack that has
    /// guessed an address wrongly does not find the same addresses again.
    pub(super) fn renew_zygote(&self) {
        self.shared.lock().renews_zygote = true;
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // It does not panic.
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, options: &PoolOptions) {
        let mut zygote = Zygote::new(options);
        let mut state = self.lock();
        while !state.stops {
            let needs_one = state.ready.len() < options.ready.saturating_add(state.waiting);
            if needs_one && (!state.pauses || state.waiting > 0) {
                let renews = std::mem::take(&mut state.renews_zygote);
                drop(state);
                if renews {
                    zygote.renew();
                }
                let started = zygote.fork();
                state = self.lock();
                state.note(started);
                self.changed.notify_all();
            } else if state.ended.is_empty() {
                state = self.wait(state);
            } else {
                let ended = std::mem::take(&mut state.ended);
                drop(state);
                wait_for(ended);
                state = self.lock();
            }
        }
        let rest = (
            std::mem::take(&mut state.ready),
            std::mem::take(&mut state.ended),
        );
        drop(state);
        wait_for(rest.1);
        drop(rest.0); // This kills the processes and waits for them.
    }
}

impl State {
    fn note(&mut self, started: io::Result<Process>) {
        self.pauses = started.is_err();
        match started {
            Ok(process) => self.ready.push_back(process),
            Err(error) => {
                tracing::warn!(%error, "cannot start a worker process");
                self.failures = self.failures.saturating_add(1);
                self.last_failure = error.to_string();
            }
        }
    }
}

/// Waits for processes that were killed.
fn wait_for(children: Vec<Child>) {
    for child in children {
        let _ = child.wait(); // It fails only if somebody else waited for it.
    }
}
