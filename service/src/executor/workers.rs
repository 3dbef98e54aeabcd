//! Jobs in confined processes, as their parent sees them.

use std::sync::Arc;
use std::time::Duration;

use diskfs_disk::{CancellationToken, Error, ErrorKind, Fallback, Gate};
use diskfs_sandbox::{
    Cancellation, Event, Grants, JobControl, JobError, OtherAnswer, Pool, PoolOptions,
};
use diskfs_vm::ForwardServer;
use diskfs_vm::tools::FilesystemTools;

use super::host::HostOptions;
use super::threads::{Threads, panicked};
use super::worker::{Reply, Request, WORKER, decode};
use super::{Execution, Executor, Watch};
use crate::failure::{Failure, FailureKind};
use crate::job::{Access, Job};

/// The time between two looks at the token of a job.
const CANCELLATION_PERIOD: Duration = Duration::from_millis(20);
/// The time in which a worker must answer for a volume in a microVM: more than a slow disk takes. A
/// worker that was taken over can't hold the machine and its caller for longer.
const DEVICE_DEADLINE: Duration = Duration::from_mins(2);

/// Carries out each job in a process of its own, which gets the image and nothing else. This process
/// starts the microVMs, and the job's process gives them its volumes.
///
/// Jobs that copy a host's file into a guest run on a thread of this process.
#[derive(Debug)]
pub struct Workers {
    pool: Arc<Pool>,
    threads: Threads,
    gate: Gate,
    fallback: Option<Arc<dyn Fallback>>,
    tools: Option<Arc<dyn FilesystemTools>>,
}

impl Workers {
    /// Starts the processes: this program again, which must call [`worker`](super::worker()) if its
    /// first argument is [`WORKER`].
    ///
    /// # Errors
    /// `Io` if the host has no resources for them.
    pub fn start(host: HostOptions, ready: usize) -> diskfs_disk::Result<Self> {
        let options = PoolOptions {
            ready,
            ..PoolOptions::of_this_program([WORKER])
        };
        let pool = Pool::start(options).map_err(|error| {
            let reason = format!("cannot start worker processes: {error}");
            Error::new(ErrorKind::Io, reason)
        })?;
        Ok(Self {
            pool: Arc::new(pool),
            gate: host.gate.clone(),
            fallback: host.fallback.clone(),
            tools: host.tools.clone(),
            threads: Threads::new(host),
        })
    }

    fn grants(&self, job: &Job) -> Grants {
        let (image, access) = job.image();
        let grants = Grants::default().gate(self.gate.clone());
        match access {
            Access::Read | Access::DryRun => grants.reading(image),
            Access::Write => grants.writing(image),
        }
    }

    async fn run(&self, job: &Job, watch: &Watch) -> Reply {
        let cancellation = Cancellation::new().map_err(|error| {
            let reason = format!("cannot start a worker process: {error}");
            Failure::new(FailureKind::Unavailable, reason)
        })?;
        let request = Request {
            job,
            has_tools: self.tools.is_some(),
            has_fallback: self.fallback.is_some(),
        };
        let in_worker = InWorker {
            pool: Arc::clone(&self.pool),
            grants: self.grants(job),
            request: request.encode()?,
            fallback: self.fallback.clone(),
            tools: self.tools.clone(),
            cancellation: cancellation.clone(),
            watch: watch.clone(),
        };
        // It ends with the job's request, even if nobody waits for this future.
        let forwarder = tokio::spawn(forward(watch.cancellation.clone(), cancellation));
        let span = tracing::Span::current();
        let work = tokio::task::spawn_blocking(move || span.in_scope(|| in_worker.run()));
        let reply = work.await.unwrap_or_else(|_| Err(panicked()));
        forwarder.abort();
        reply
    }
}

impl Executor for Workers {
    fn execute(&self, job: Arc<Job>, watch: Watch) -> Execution<'_> {
        if job.reads_host_files() {
            return self.threads.execute(job, watch);
        }
        Box::pin(async move { self.run(&job, &watch).await })
    }
}

/// Cancels the job in a worker when its token is cancelled.
async fn forward(token: CancellationToken, cancellation: Cancellation) {
    while !token.is_cancelled() {
        tokio::time::sleep(CANCELLATION_PERIOD).await;
    }
    cancellation.cancel();
}

/// A job for a worker.
struct InWorker {
    pool: Arc<Pool>,
    grants: Grants,
    request: Vec<u8>,
    fallback: Option<Arc<dyn Fallback>>,
    tools: Option<Arc<dyn FilesystemTools>>,
    cancellation: Cancellation,
    watch: Watch,
}

impl InWorker {
    fn run(self) -> Reply {
        let fallback = || {
            let none = || Error::new(ErrorKind::Unsupported, "this host starts no microVMs");
            self.fallback.clone().ok_or_else(none)
        };
        let mut machines = ForwardServer::new(fallback)
            .with_tools(self.tools.clone())
            .with_device_deadline(DEVICE_DEADLINE);
        let mut requests = |request: &[u8]| {
            let (bytes, descriptor) = machines.answer(request);
            OtherAnswer { bytes, descriptor }
        };
        let progress = Arc::clone(&self.watch.progress);
        let mut events = |event| match event {
            Event::Progress(report) => {
                if let Ok(report) = postcard::from_bytes(&report) {
                    progress(report);
                }
            }
            Event::Log {
                level,
                target,
                line,
            } => log(level, &target, &line),
            _ => {}
        };
        let mut control = JobControl {
            cancellation: Some(&self.cancellation),
            events: Some(&mut events),
            requests: Some(&mut requests),
            ..JobControl::default()
        };
        let reply = self.pool.run(&self.request, &self.grants, &mut control);
        decode(&reply.map_err(|error| failure(&error))?)
    }
}

/// Adds a line of a worker to the log.
fn log(level: diskfs_sandbox::Level, worker: &str, line: &str) {
    use diskfs_sandbox::Level;
    match level {
        Level::Error => tracing::error!(worker, "{line}"),
        Level::Warn => tracing::warn!(worker, "{line}"),
        Level::Info => tracing::info!(worker, "{line}"),
        Level::Debug => tracing::debug!(worker, "{line}"),
    }
}

/// Returns the failure of a job that has no answer.
fn failure(error: &JobError) -> Failure {
    let kind = match error {
        JobError::Panicked { message } => {
            tracing::error!("a worker panicked: {message}");
            return panicked();
        }
        JobError::Cancelled => FailureKind::Cancelled,
        JobError::Start { .. } => FailureKind::Unavailable,
        _ => FailureKind::Internal,
    };
    Failure::new(kind, error.to_string())
}
