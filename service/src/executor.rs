//! The execution of jobs.

mod host;
mod threads;
mod worker;
mod workers;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use diskfs_disk::CancellationToken;

use crate::failure::Failure;
use crate::job::{Answer, Job, Progress};

pub use host::HostOptions;
pub use threads::Threads;
#[cfg(feature = "testing")]
pub(crate) use worker::decode;
pub use worker::{WORKER, worker};
pub use workers::Workers;

/// A job that is being carried out, for whoever waits for it.
pub type Execution<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

/// The way from a running job to the one who started it.
#[derive(Clone)]
pub struct Watch {
    /// The token by which the job is cancelled.
    pub cancellation: CancellationToken,
    /// Gets the job's progress, on the thread that carries it out.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Watch");
        debug
            .field("cancellation", &self.cancellation)
            .finish_non_exhaustive()
    }
}

/// Carries out jobs.
///
/// A failing job must harm no other: an error of the program in it is a [`Failure`] of the kind
/// `Internal`.
pub trait Executor: std::fmt::Debug + Send + Sync {
    /// Carries out a job. The work goes on if the future is dropped, until the watch's token is
    /// cancelled or the job ends.
    fn execute(&self, job: Arc<Job>, watch: Watch) -> Execution<'_>;
}
