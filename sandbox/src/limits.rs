//! Limits of memory, processor time and descriptors.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limits of a process. `None` keeps the limit that the process has.
///
/// Core dumps are always disabled: they would hold contents of images, and keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The memory that the process can allocate (`RLIMIT_DATA`: heap, stacks of threads, private
    /// mappings; reserved addresses that were not made writable do not count). Workers can create
    /// no shared memory, which this limit does not count.
    pub memory_bytes: Option<u64>,
    /// The processor time of all threads together, rounded up to seconds.
    pub processor_time: Option<Duration>,
    /// The number of open descriptors.
    pub descriptors: Option<u64>,
    /// The size of a file that the process can extend a file to.
    pub file_size_bytes: Option<u64>,
}

impl Limits {
    /// Sets the limits of this process. They cannot be raised again without privileges.
    ///
    /// # Errors
    /// Fails if the host refuses a limit.
    pub fn apply(&self) -> io::Result<()> {
        set(Resource::Core, 0, 0)?;
        if let Some(bytes) = self.memory_bytes {
            lower(Resource::Data, bytes)?;
        }
        if let Some(time) = self.processor_time {
            let whole = time
                .as_secs()
                .saturating_add(u64::from(time.subsec_nanos() > 0));
            // At the soft limit the process gets SIGXCPU, which says what happened; a process that
            // ignores it is killed at the hard limit.
            lower_to(Resource::Cpu, whole.max(1), whole.saturating_add(1))?;
        }
        if let Some(count) = self.descriptors {
            lower(Resource::Nofile, count)?;
        }
        if let Some(bytes) = self.file_size_bytes {
            lower(Resource::Fsize, bytes)?;
        }
        Ok(())
    }
}

/// Sets both limits to `to`, or to the present hard limit if that is lower.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    lower_to(resource, to, to)
}

fn lower_to(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let present = getrlimit(resource).maximum;
    let hard = present.map_or(hard, |present| present.min(hard));
    set(resource, soft.min(hard), hard)
}

fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    Ok(setrlimit(resource, limit)?)
}
