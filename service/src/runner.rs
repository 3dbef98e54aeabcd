//! The way of a request from the edge to the executor: its turn, the lock of its image, its
//! cancellation, its log.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

use diskfs_disk::CancellationToken;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::executor::{Executor, Watch};
use crate::failure::{Failure, FailureKind};
use crate::image_locks::ImageLocks;
use crate::job::{Answer, Job, Progress};
use crate::metrics::Metrics;

/// Receives the progress of a job.
pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Carries out the jobs of requests.
#[derive(Debug)]
pub(crate) struct Runner {
    executor: Arc<dyn Executor>,
    locks: ImageLocks,
    /// The number of jobs that may be carried out at once.
    turns: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    running: Mutex<Running>,
}

/// The jobs that are being carried out or wait for their turn.
#[derive(Debug, Default)]
struct Running {
    next: u64,
    tokens: std::collections::BTreeMap<u64, CancellationToken>,
    is_stopping: bool,
}

/// Cancels a job when its request is gone: the client has disconnected, or the deadline is over.
struct CancelOnDrop<'r> {
    token: CancellationToken,
    number: u64,
    runner: &'r Runner,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.token.cancel();
        self.runner.running().tokens.remove(&self.number);
    }
}

impl Runner {
    pub(crate) fn new(
        executor: Arc<dyn Executor>,
        concurrency: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            executor,
            locks: ImageLocks::default(),
            turns: Arc::new(Semaphore::new(concurrency.min(Semaphore::MAX_PERMITS))),
            metrics,
            running: Mutex::default(),
        }
    }

    /// Carries out a job. If the future is dropped, the job is cancelled.
    pub(crate) async fn run(
        &self,
        job: Job,
        on_progress: Option<OnProgress>,
    ) -> Result<Answer, Failure> {
        let started = Instant::now();
        let method = job.name();
        let span = tracing::info_span!("request", method, image = %job.image().0.display());
        let result = self
            .take_turn(job, on_progress)
            .instrument(span.clone())
            .await;
        let seconds = started.elapsed().as_secs_f64();
        span.in_scope(|| match &result {
            Ok(_) => tracing::info!(seconds, "done"),
            Err(failure) => {
                tracing::warn!(seconds, kind = failure.kind.name(), "{}", failure.message);
            }
        });
        let name = match &result {
            Ok(_) => "ok",
            Err(failure) => failure.kind.name(),
        };
        self.metrics.request(method, name, started.elapsed());
        result
    }

    async fn take_turn(
        &self,
        job: Job,
        on_progress: Option<OnProgress>,
    ) -> Result<Answer, Failure> {
        let guard = self.register()?;
        let waiting = self.metrics.waits();
        let (path, access) = job.image();
        // The lock first: a request that waits for an image must not take another one's turn.
        let lock = self.locks.lock(path, access).await;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let held = (lock, turn.map_err(|_| stopping())?);
        drop(waiting);
        if guard.token.is_cancelled() {
            return Err(stopping());
        }
        let running = self.metrics.runs();
        let phases = Arc::new(Phases::new(job.name(), Arc::clone(&self.metrics)));
        let watch = {
            let phases = Arc::clone(&phases);
            Watch {
                cancellation: guard.token.clone(),
                progress: Arc::new(move |progress| {
                    // The job keeps the lock of its image and its turn, even if nobody waits for it
                    // any more.
                    let _ = &held;
                    phases.enter(progress);
                    if let Some(on_progress) = &on_progress {
                        on_progress(progress);
                    }
                }),
            }
        };
        let answer = self.executor.execute(Arc::new(job), watch).await;
        phases.end();
        drop(running);
        match answer {
            Err(failure)
                if failure.kind == FailureKind::Cancelled && self.running().is_stopping =>
            {
                Err(stopping())
            }
            answer => answer,
        }
    }

    fn register(&self) -> Result<CancelOnDrop<'_>, Failure> {
        let mut running = self.running();
        if running.is_stopping {
            return Err(stopping());
        }
        let number = running.next;
        running.next += 1;
        let token = CancellationToken::new();
        running.tokens.insert(number, token.clone());
        Ok(CancelOnDrop {
            token,
            number,
            runner: self,
        })
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the number of requests that are being carried out or wait.
    pub(crate) fn count(&self) -> usize {
        self.running().tokens.len()
    }

    /// Refuses new requests.
    pub(crate) fn stop(&self) {
        self.running().is_stopping = true;
    }

    /// Cancels all requests.
    pub(crate) fn cancel_all(&self) {
        for token in self.running().tokens.values() {
            token.cancel();
        }
    }
}

fn stopping() -> Failure {
    Failure::new(FailureKind::Unavailable, "the server is stopping")
}

/// Measures the phases of a job.
struct Phases {
    method: &'static str,
    metrics: Arc<Metrics>,
    present: Mutex<Option<(&'static str, Instant, u64)>>,
}

impl Phases {
    fn new(method: &'static str, metrics: Arc<Metrics>) -> Self {
        Self {
            method,
            metrics,
            present: Mutex::new(None),
        }
    }

    fn enter(&self, progress: Progress) {
        let name = progress.phase.name();
        let mut present = self
            .present
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match &mut *present {
            Some((phase, _, bytes)) if *phase == name => {
                let more = progress.done_bytes.saturating_sub(*bytes);
                *bytes = progress.done_bytes.max(*bytes);
                if more > 0 {
                    self.metrics.written(self.method, more);
                }
            }
            _ => {
                self.complete(present.take());
                *present = Some((name, Instant::now(), progress.done_bytes));
            }
        }
    }

    fn end(&self) {
        let mut present = self
            .present
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.complete(present.take());
    }

    fn complete(&self, phase: Option<(&'static str, Instant, u64)>) {
        if let Some((name, since, _)) = phase {
            self.metrics.phase(self.method, name, since.elapsed());
        }
    }
}
