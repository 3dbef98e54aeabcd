//! The memory, descriptors, threads and processor time of a process.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::processor_clock;
use crate::machine;

/// The process that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meter {
    /// This process, which uses the library.
    Own,
    /// A server.
    Process(u32),
}

/// The use of memory, descriptors and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    /// The resident memory that is no file's, in KiB.
    pub(super) memory_kib: u64,
    /// The number of open descriptors.
    pub(super) descriptors: u64,
    /// The number of threads.
    pub(super) threads: u64,
}

impl Meter {
    /// Returns the processor time of the process so far, of all its threads.
    pub(super) fn processor_time(self) -> Result<Duration> {
        processor_clock::read(match self {
            Self::Own => 0,
            Self::Process(pid) => pid.try_into()?,
        })
    }
}

impl Level {
    /// Returns the current level of a process.
    pub(super) fn of(meter: Meter) -> Result<Self> {
        let directory = match meter {
            Meter::Own => "/proc/self".to_owned(),
            Meter::Process(pid) => format!("/proc/{pid}"),
        };
        let path = format!("{directory}/status");
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let field = |name| machine::kib_field(&status, name).context(name);
        Ok(Self {
            memory_kib: field("RssAnon:")?,
            descriptors: u64::try_from(fs::read_dir(format!("{directory}/fd"))?.count())?,
            threads: field("Threads:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = Meter::Own.processor_time().unwrap();
        while Meter::Own.processor_time().unwrap() < before + Duration::from_millis(5) {}
        let all = Meter::Process(std::process::id()).processor_time().unwrap();
        assert!(all >= before + Duration::from_millis(5));
    }

    #[test]
    fn an_open_file_is_a_descriptor() {
        // Other tests open files at the same time, so only a lower limit holds.
        let files: Vec<_> = (0..500)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        let level = Level::of(Meter::Process(std::process::id())).unwrap();
        assert!(level.descriptors >= 500 && level.threads > 0 && level.memory_kib > 0);
        drop(files);
    }
}
