//! Jobs on threads of the server's own process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::host::{HostContext, HostOptions};
use super::{Execution, Executor, Watch};
use crate::failure::{Failure, FailureKind};
use crate::job::{Answer, Job};

/// Carries out each job on a thread of this process.
#[derive(Debug, Clone)]
pub struct Threads {
    options: Arc<HostOptions>,
}

impl Threads {
    /// Creates the executor.
    pub fn new(options: HostOptions) -> Self {
        Self {
            options: Arc::new(options),
        }
    }
}

impl Executor for Threads {
    fn execute(&self, job: Arc<Job>, watch: Watch) -> Execution<'_> {
        let options = Arc::clone(&self.options);
        let span = tracing::Span::current();
        let work =
            tokio::task::spawn_blocking(move || span.in_scope(|| run(&job, &options, watch)));
        Box::pin(async move { work.await.unwrap_or_else(|_| Err(panicked())) })
    }
}

fn run(job: &Job, options: &HostOptions, watch: Watch) -> Result<Answer, Failure> {
    let work = || {
        let mut context = HostContext { options, watch };
        job.run(&mut context).map_err(Failure::from)
    };
    // Nothing that the job has changed is used after a panic: its disk is closed without a commit.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

pub(super) fn panicked() -> Failure {
    let message = "internal error: the request made diskfs panic; the server's log has the place, \
                   please report it";
    Failure::new(FailureKind::Internal, message)
}
