//! Jobs in confined processes, as the process sees them.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_disk::{
    CancellationToken, Disk, Error, ErrorKind, Fallback, FallbackRequest, Gate, Result,
};
use diskfs_sandbox::worker::WorkerContext;
use diskfs_vfs::{FsRead, FsWrite};
use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::MakeWriter;

use super::host::HostOptions;
use crate::failure::{Failure, FailureKind};
use crate::job::{Access, Answer, FilesystemTools, Job, JobContext, Progress, Source};

/// The first argument of a process that is a worker.
pub const WORKER: &str = "service-worker";

/// The message to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<J> {
    job: J,
    has_tools: bool,
    has_fallback: bool,
}

impl<'a> Request<&'a Job> {
    /// Returns the bytes of a request.
    ///
    /// # Errors
    /// `Internal` if a value cannot be encoded.
    pub(super) fn encode(
        job: &'a Job,
        has_tools: bool,
        has_fallback: bool,
    ) -> std::result::Result<Vec<u8>, Failure> {
        let request = Self {
            job,
            has_tools,
            has_fallback,
        };
        postcard::to_allocvec(&request).map_err(|error| not_understood(&error))
    }
}

/// The answer of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The job has ended.
    Ended(std::result::Result<Answer, Failure>),
    /// The job has changed nothing: it needs a microVM, which a worker cannot start.
    NeedsHost,
}

impl Reply {
    /// Decodes the answer of a worker.
    ///
    /// # Errors
    /// `Internal` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, Failure> {
        postcard::from_bytes(bytes).map_err(|error| not_understood(&error))
    }
}

fn not_understood(error: &postcard::Error) -> Failure {
    let reason = format!("a worker process was not understood: {error}");
    Failure::new(FailureKind::Internal, reason)
}

/// Runs this process as a worker, which carries out one job.
///
/// This must be the first thing that the program does, as
/// [`serve`](diskfs_sandbox::worker::serve) says.
pub fn worker() -> ExitCode {
    diskfs_sandbox::worker::serve(|request, parent| {
        let reply = carry_out(request, parent);
        // Without an answer the parent reports that it does not understand the worker.
        postcard::to_allocvec(&reply).unwrap_or_default()
    })
}

fn carry_out(request: &[u8], parent: &WorkerContext) -> Reply {
    let request: Request<Job> = match postcard::from_bytes(request) {
        Ok(request) => request,
        Err(error) => return Reply::Ended(Err(not_understood(&error))),
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .with_writer(Log(parent.clone()));
    log.init();
    let need = Need {
        is_noted: Arc::default(),
        cancellation: parent.cancelled().into(),
    };
    let mut context = Context {
        parent: parent.clone(),
        options: HostOptions {
            gate: Gate::default(),
            fallback: request.has_fallback.then(|| Arc::new(need.clone()) as _),
            tools: request.has_tools.then(|| Arc::new(need.clone()) as _),
        },
        cancellation: need.cancellation.clone(),
    };
    let result = request.job.run(&mut context).map_err(Failure::from);
    if result.is_err() && need.is_noted.load(Ordering::Acquire) {
        return Reply::NeedsHost;
    }
    Reply::Ended(result)
}

/// The context of a job in a worker.
struct Context {
    parent: WorkerContext,
    options: HostOptions,
    cancellation: CancellationToken,
}

impl JobContext for Context {
    fn open(&mut self, source: &Source, access: Access) -> Result<Disk> {
        let options = self
            .options
            .disk_options(source, access, &self.cancellation)?;
        options.files(self.parent.opener()).open(&source.path)
    }

    fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    fn progress(&mut self, progress: Progress) {
        if let Ok(report) = postcard::to_allocvec(&progress) {
            self.parent.progress(&report);
        }
    }

    fn tools(&self) -> Option<Arc<dyn FilesystemTools>> {
        self.options.tools.clone()
    }

    fn has_file(&self, _: &Path) -> bool {
        false
    }
}

/// Stands for the microVM of the host: notes that the job needs it, and ends the job.
#[derive(Debug, Clone)]
struct Need {
    is_noted: Arc<AtomicBool>,
    cancellation: CancellationToken,
}

impl Need {
    fn note(&self) -> Error {
        self.is_noted.store(true, Ordering::Release);
        self.cancellation.cancel();
        Error::new(ErrorKind::Unsupported, "a worker starts no microVM")
    }
}

impl Fallback for Need {
    fn supports(&self, _: &str) -> bool {
        true
    }

    fn open(&self, _: &FallbackRequest<'_>, _: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>> {
        Err(self.note())
    }

    fn open_for_writing(
        &self,
        _: &FallbackRequest<'_>,
        _: Arc<dyn BlockWrite>,
    ) -> Result<Arc<dyn FsWrite>> {
        Err(self.note())
    }
}

impl FilesystemTools for Need {
    fn check(&self) -> Result<()> {
        Err(self.note())
    }

    fn make(&self, _: &str, _: Option<&str>, _: &[String], _: Arc<dyn BlockWrite>) -> Result<()> {
        Err(self.note())
    }

    fn grow(&self, _: &str, _: Arc<dyn BlockWrite>) -> Result<()> {
        Err(self.note())
    }
}

/// Sends lines of the log to the parent.
struct Log(WorkerContext);

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            parent: &self.0,
            level: diskfs_sandbox::Level::Info,
            target: String::new(),
        }
    }

    fn make_writer_for(&'a self, metadata: &tracing::Metadata<'_>) -> Line<'a> {
        use diskfs_sandbox::Level;
        let level = match *metadata.level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            _ => Level::Debug,
        };
        Line {
            parent: &self.0,
            level,
            target: metadata.target().to_owned(),
        }
    }
}

/// A line of the log.
struct Line<'a> {
    parent: &'a WorkerContext,
    level: diskfs_sandbox::Level,
    target: String,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        self.parent.log(self.level, &self.target, line.trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
