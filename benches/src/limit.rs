//! The time limit of a visit: some contenders hang on some machines, and a run must end anyway.
//!
//! During a visit, the processes of its contender are registered here. When the time is over they
//! are killed. Then everything that waits for them fails, including calls into a mount that one of
//! them serves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// The interval between two checks of the clock.
const TICK: Duration = Duration::from_millis(200);

struct VisitLimit {
    limit: Duration,
    deadline: Option<Instant>,
    processes: Vec<u32>,
}

static STATE: Mutex<VisitLimit> = Mutex::new(VisitLimit {
    limit: Duration::ZERO,
    deadline: None,
    processes: Vec::new(),
});

/// Starts the thread that enforces this limit.
pub(crate) fn install(limit: Duration) -> Result<()> {
    state().limit = limit;
    std::thread::Builder::new()
        .name("limit".to_owned())
        .spawn(|| {
            loop {
                std::thread::sleep(TICK);
                state().enforce();
            }
        })
        .context("starting the thread of the time limit")?;
    Ok(())
}

/// A visit that has begun; dropping the value ends it.
#[derive(Debug)]
pub(crate) struct Visit;

impl Visit {
    /// Starts the clock.
    pub(crate) fn begin() -> Self {
        let mut state = state();
        state.deadline = Some(Instant::now() + state.limit);
        Self
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        state().deadline = None;
    }
}

/// The registration of a process, which is killed if the visit takes too long while this value
/// lives.
#[derive(Debug)]
pub(crate) struct Watched(u32);

impl Watched {
    /// Registers the process. Drop the value when the process has ended: another process can then
    /// get the same number (only after all other numbers were used).
    pub(crate) fn new(pid: u32) -> Self {
        state().processes.push(pid);
        Self(pid)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = state();
        let at = state.processes.iter().position(|pid| *pid == self.0);
        if let Some(at) = at {
            state.processes.swap_remove(at);
        }
    }
}

/// Fails if the visit has taken too long.
pub(crate) fn check() -> Result<()> {
    let state = state();
    if state.is_over() {
        bail!("takes longer than {} s", state.limit.as_secs());
    }
    Ok(())
}

impl VisitLimit {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Instant::now())
    }

    fn enforce(&self) {
        if !self.is_over() {
            return;
        }
        for pid in &self.processes {
            kill(*pid);
        }
    }
}

/// Kills a process with SIGKILL.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

fn state() -> MutexGuard<'static, VisitLimit> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_killed_when_the_time_is_over() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut state = VisitLimit {
            limit: Duration::ZERO,
            deadline: None,
            processes: vec![child.id()],
        };
        state.enforce();
        assert!(child.try_wait().unwrap().is_none(), "no visit has begun");
        state.deadline = Some(Instant::now());
        state.enforce();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_is_forgotten_with_its_guard() {
        let watched = Watched::new(u32::MAX);
        assert!(state().processes.contains(&u32::MAX));
        drop(watched);
        assert!(!state().processes.contains(&u32::MAX));
    }
}
