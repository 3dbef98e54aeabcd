//! The zygote of a pool: the process from which workers are forked.

use std::io;

use super::PoolOptions;
use super::process::Process;

/// The number of workers that are forked from one zygote. They have the same addresses; executing the
/// program anew for this many costs each of them about as much as one page fault.
const FORKS_MAX: u32 = 256;

/// The zygote, which is started when it is needed.
#[derive(Debug)]
pub(super) struct Zygote<'a> {
    options: &'a PoolOptions,
    process: Option<Process>,
    forks: u32,
}

impl<'a> Zygote<'a> {
    pub(super) fn new(options: &'a PoolOptions) -> Self {
        Self {
            options,
            process: None,
            forks: 0,
        }
    }

    /// Ends the process. Its workers go on.
    pub(super) fn renew(&mut self) {
        self.process = None;
        self.forks = 0;
    }

    /// Forks a worker. The kernel kills it, as the zygote, when the calling thread ends.
    pub(super) fn fork(&mut self) -> io::Result<Process> {
        if self.forks >= FORKS_MAX {
            self.renew();
        }
        // A zygote that was killed is replaced.
        if let Some(process) = &self.process
            && let Ok(worker) = process.fork(self.options)
        {
            self.forks = self.forks.saturating_add(1);
            return Ok(worker);
        }
        self.renew();
        let process = Process::start(self.options)?;
        match process.fork(self.options) {
            Ok(worker) => {
                self.process = Some(process);
                self.forks = 1;
                Ok(worker)
            }
            Err(error) if has_ended(&error) => Err(io::Error::other(process.ending())),
            Err(error) => Err(error),
        }
    }
}

/// Returns true if the error says that the process has closed its connection.
fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
