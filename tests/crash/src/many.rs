//! Parallel cases.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::session::{Report, Session};

/// A case with its result and its duration.
pub type Outcome<C = Session, R = Report> = (C, Result<R>, Duration);

/// Runs the cases, `jobs` at a time, until all are done or the time is up. Calls `report` with each
/// outcome.
pub fn run_many<C: Send, R: Send>(
    cases: impl IntoIterator<Item = C>,
    jobs: usize,
    until: Option<Instant>,
    what: impl Fn(&C) -> Result<R> + Sync,
    mut report: impl FnMut(Outcome<C, R>),
) {
    let queue: Mutex<VecDeque<_>> = Mutex::new(cases.into_iter().collect());
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
                while let Some(case) = next() {
                    let started = Instant::now();
                    let outcome = what(&case);
                    if sender.send((case, outcome, started.elapsed())).is_err() {
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
