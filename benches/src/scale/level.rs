//! What a process uses at a moment.

use std::fs;

use anyhow::{Context, Result};

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
