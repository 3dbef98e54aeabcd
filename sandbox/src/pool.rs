//! The pool: confined processes that wait for jobs, one job each.

mod cancellation;
mod error;
mod job;
mod process;
mod spawner;
mod zygote;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use cancellation::Cancellation;
pub use error::JobError;

use crate::broker::Grants;
use crate::broker_process::AnswerOther;
use crate::limits::Limits;
use crate::message::Level;
use crate::profile::Strictness;
use spawner::Spawner;

/// The options of a pool.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The program of the workers, which calls [`worker::serve`](crate::worker::serve). It is executed
    /// once for many workers.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// The number of processes to keep ready. More are started if more jobs come at once.
    pub ready: usize,
    /// The limits of each process.
    pub limits: Limits,
    /// The policy for a host that cannot confine a process completely.
    pub strictness: Strictness,
    /// The longest answer, and the longest report of progress.
    pub answer_max_bytes: u64,
}

impl PoolOptions {
    /// The memory that a worker may allocate unless the options say otherwise.
    pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

    /// Creates options for workers that run this program again, with these arguments.
    pub fn of_this_program<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            // Valid even after an upgrade has replaced the program's file.
            program: "/proc/self/exe".into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            ready: 2,
            limits: Limits {
                memory_bytes: Some(Self::DEFAULT_MEMORY_BYTES),
                processor_time: Some(Duration::from_mins(10)),
                descriptors: Some(1024),
                file_size_bytes: None,
            },
            strictness: Strictness::default(),
            answer_max_bytes: 64 << 20,
        }
    }
}

/// A report of a job before its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A report of progress, as the job has written it.
    Progress(Vec<u8>),
    /// A line for the log, without control characters.
    Log {
        /// The line's level.
        level: Level,
        /// The part of the program that it comes from.
        target: String,
        /// The text.
        line: String,
    },
}

/// The means by which a caller follows a job and ends it.
#[derive(Default)]
pub struct JobControl<'a> {
    /// The time that the job may take; `None` sets no limit but that of processor time.
    pub deadline: Option<Duration>,
    /// The cancellation of the job.
    pub cancellation: Option<&'a Cancellation>,
    /// The answers to requests that are not about files, of at most 64 KiB. Without it, such a request
    /// breaks the protocol. While it works, the process gets nothing else but a cancellation. At the
    /// deadline the process is killed, and [`Pool::run`] returns when the answer has ended, too.
    pub requests: Option<&'a mut AnswerOther<'a>>,
    /// The receiver of events. Without one, lines of the log go to the log of this process.
    pub events: Option<&'a mut dyn FnMut(Event)>,
}

impl fmt::Debug for JobControl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobControl")
            .field("deadline", &self.deadline)
            .field("cancellation", &self.cancellation)
            .finish_non_exhaustive()
    }
}

/// Confined processes that wait for jobs.
///
/// Each process does one job and ends, so no job finds anything of an earlier one. Dropping the pool
/// ends its processes; if this process is killed, the kernel ends them.
#[derive(Debug)]
pub struct Pool {
    spawner: Spawner,
    answer_max_bytes: u64,
}

impl Pool {
    /// Starts a pool. Its processes start in the background.
    ///
    /// # Errors
    /// Fails if the host has no resources for the thread that starts processes.
    pub fn start(options: PoolOptions) -> io::Result<Self> {
        Ok(Self {
            answer_max_bytes: options.answer_max_bytes,
            spawner: Spawner::start(options)?,
        })
    }

    /// Runs a job in a process of its own and returns its answer. Jobs of several threads run side
    /// by side.
    ///
    /// # Errors
    /// See [`JobError`]; an error that the job itself reports is part of its answer.
    pub fn run(
        &self,
        job: &[u8],
        grants: &Grants,
        control: &mut JobControl<'_>,
    ) -> Result<Vec<u8>, JobError> {
        job::run(&self.spawner, job, grants, control, self.answer_max_bytes)
    }
}
