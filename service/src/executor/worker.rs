//! Jobs in confined processes, as the process sees them.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use diskfs_disk::{CancellationToken, Disk, Gate, Result};
use diskfs_sandbox::worker::WorkerContext;
use diskfs_vm::tools::FilesystemTools;
use diskfs_vm::{Forwarded, MicroVm, VmOptions};
use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::MakeWriter;

use super::host::HostOptions;
use crate::failure::{Failure, FailureKind};
use crate::job::{Access, Answer, Job, JobContext, Progress, Source};

/// The first argument of a process that is a worker.
pub const WORKER: &str = "service-worker";

/// The message to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<J> {
    pub(super) job: J,
    /// True if the host has programs for filesystems.
    pub(super) has_tools: bool,
    /// True if the host has microVMs.
    pub(super) has_fallback: bool,
}

impl Request<&Job> {
    /// Returns the bytes of a request.
    ///
    /// # Errors
    /// `Internal` if a value cannot be encoded.
    pub(super) fn encode(&self) -> std::result::Result<Vec<u8>, Failure> {
        postcard::to_allocvec(self).map_err(|error| not_understood(&error))
    }
}

/// The answer of a worker.
pub(crate) type Reply = std::result::Result<Answer, Failure>;

/// Decodes the answer of a worker.
///
/// # Errors
/// `Internal` for other bytes.
pub(crate) fn decode(bytes: &[u8]) -> Reply {
    postcard::from_bytes(bytes).map_err(|error| not_understood(&error))?
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
    let request: Request<Job> =
        postcard::from_bytes(request).map_err(|error| not_understood(&error))?;
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .with_writer(Log(parent.clone()));
    log.init();
    let machines = Arc::new(machines(parent.clone()));
    let mut context = Context {
        parent: parent.clone(),
        options: HostOptions {
            gate: Gate::default(),
            fallback: request.has_fallback.then(|| Arc::clone(&machines) as _),
            tools: request.has_tools.then_some(machines as _),
        },
        cancellation: parent.cancelled().into(),
    };
    request.job.run(&mut context).map_err(Failure::from)
}

/// Returns the microVMs of the parent.
fn machines(parent: WorkerContext) -> Forwarded {
    // It starts none, and knows the filesystems that a microVM can open.
    let local = Arc::new(MicroVm::new(VmOptions::default()));
    Forwarded::new(local, move |request| {
        let answer = parent.ask(request)?;
        Ok((answer.bytes, answer.descriptor))
    })
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
