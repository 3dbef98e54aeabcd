//! The threads of a check: they take units of work in order, while the caller's thread reports the
//! progress.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use super::context::{Context, cancelled};
use super::finding::CheckPhase;
use super::report::CheckProgress;
use crate::error::{Error, Result};

/// The time between two reports of the progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// The number of threads and the receiver of the progress.
pub(super) struct Threads<'a> {
    pub(super) count: usize,
    pub(super) progress: &'a mut dyn FnMut(CheckProgress) -> ControlFlow<()>,
}

impl Threads<'_> {
    /// Calls `work` for each number below `total`.
    ///
    /// # Errors
    /// The first error of `work`; `Cancelled` if the receiver of the progress stops the check.
    pub(super) fn run(
        &mut self,
        context: &Context<'_>,
        phase: CheckPhase,
        total: u32,
        work: &(dyn Fn(u32) -> Result<()> + Sync),
    ) -> Result<()> {
        context.progress.restart();
        self.report(phase, 0, total)?;
        if self.count <= 1 || total <= 1 {
            for unit in 0..total {
                work(unit)?;
                if unit & 0xff == 0xff {
                    self.report(phase, context.progress.done(), total)?;
                }
            }
            return self.report(phase, u64::from(total), total);
        }
        let next = AtomicU32::new(0);
        let running = AtomicUsize::new(self.count);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let main = std::thread::current();
        let worker = || {
            let result = work_on(&next, total, work);
            if let Err(e) = result {
                context.progress.stop();
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                // The others are cancelled because of the first error.
                failure.get_or_insert(e);
            }
            running.fetch_sub(1, Ordering::AcqRel);
            main.unpark();
        };
        let stopped = std::thread::scope(|scope| {
            for _ in 0..self.count {
                scope.spawn(worker);
            }
            let mut stopped = Ok(());
            while running.load(Ordering::Acquire) > 0 {
                std::thread::park_timeout(REPORT_INTERVAL);
                if stopped.is_ok() {
                    stopped = self.report(phase, context.progress.done(), total);
                    if stopped.is_err() {
                        context.progress.stop();
                    }
                }
            }
            stopped
        });
        stopped?;
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }

    fn report(&mut self, phase: CheckPhase, done: u64, total: u32) -> Result<()> {
        let total = u64::from(total);
        match (self.progress)(CheckProgress { phase, done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(cancelled()),
        }
    }
}

fn work_on(next: &AtomicU32, total: u32, work: &(dyn Fn(u32) -> Result<()> + Sync)) -> Result<()> {
    /// The maximum number of units that a thread takes at once.
    const BATCH_MAX: u32 = 16;
    // Small totals are shared out in smaller parts.
    let batch = total.wrapping_div(64).clamp(1, BATCH_MAX);
    loop {
        let first = next.fetch_add(batch, Ordering::Relaxed);
        // Each thread adds once after the end, far from an overflow.
        if first >= total {
            return Ok(());
        }
        for unit in first..first.saturating_add(batch).min(total) {
            work(unit)?;
        }
    }
}
