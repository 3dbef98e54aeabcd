//! Parallel sessions.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::session::{Report, Session};

/// A session with its result and its duration.
pub type Outcome = (Session, Result<Report>, Duration);

/// Runs the sessions, `jobs` at a time, until all are done or the time is up. Calls `report` with
/// each outcome.
pub fn run_many(
    sessions: impl IntoIterator<Item = Session>,
    jobs: usize,
    until: Option<Instant>,
    what: impl Fn(&Session) -> Result<Report> + Sync,
    mut report: impl FnMut(Outcome),
) {
    let queue: Mutex<VecDeque<_>> = Mutex::new(sessions.into_iter().collect());
    let next = || {
        let in_time = until.is_none_or(|until| Instant::now() < until);
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front().filter(|_| in_time)
    };
    thread::scope(|scope| {
        let (sender, outcomes) = mpsc::channel();
        for _ in 0..jobs.max(1) {
            let sender = sender.clone();
            let (what, next) = (&what, &next);
            scope.spawn(move || {
                while let Some(session) = next() {
                    let started = Instant::now();
                    let outcome = what(&session);
                    if sender.send((session, outcome, started.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for outcome in outcomes {
            report(outcome);
        }
    });
}
