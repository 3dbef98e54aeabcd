//! Profiles: everything that a process may do from some moment on.

use std::fmt;
use std::io;

use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::ruleset::{FileRules, HostFiles, Network};
use crate::seccomp::{self, Calls};

/// The rights that a process keeps when it confines itself.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// The files of the host that the process may still open.
    pub files: HostFiles,
    /// The system calls that it may make.
    pub calls: Calls,
    /// The resources that it may use.
    pub limits: Limits,
    /// The policy for a host that lacks a part of the confinement.
    pub strictness: Strictness,
}

/// The policy for a host that lacks a part of the confinement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strictness {
    /// The process continues with what the host has, and says in the log what is missing.
    #[default]
    BestEffort,
    /// The process is refused.
    Required,
}

/// The parts of the confinement that are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// The version of Landlock; 0 if the host has none. Version 4 refuses TCP, version 6 refuses
    /// signals to other processes and connections to their abstract sockets.
    pub landlock_version: u32,
    /// True if system calls are filtered.
    pub filters_calls: bool,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock_version {
            0 => f.write_str("no Landlock")?,
            version => write!(f, "Landlock {version}")?,
        }
        f.write_str(if self.filters_calls {
            ", system calls filtered"
        } else {
            ", system calls not filtered"
        })
    }
}

impl Profile {
    /// Confines this process for the rest of its life, with all threads that it starts later.
    ///
    /// The process must have only one thread: Landlock applies to a thread and to those that it
    /// starts.
    ///
    /// # Errors
    /// * `InvalidInput` if the process has several threads.
    /// * `Unsupported` if the host lacks Landlock or seccomp and the profile
    ///   [requires](Strictness::Required) both.
    /// * Any error of the host while it sets limits.
    pub fn apply(self) -> io::Result<Confined> {
        refuse_threads()?;
        self.limits.apply()?;
        set_no_new_privs(true)?;
        let landlock_version = match enforce(&self.files) {
            Ok(version) => version,
            Err(error) => {
                tracing::debug!(%error, "Landlock cannot be used");
                0
            }
        };
        if landlock_version == 0 {
            missing(self.strictness, "Landlock", "files and TCP")?;
        }
        let filtered = seccomp::apply(self.calls);
        if let Err(error) = &filtered {
            tracing::debug!(%error, "seccomp cannot be used");
            missing(self.strictness, "seccomp", "system calls")?;
        }
        let confined = Confined {
            landlock_version,
            filters_calls: filtered.is_ok(),
        };
        tracing::debug!(%confined, "this process is confined");
        Ok(confined)
    }
}

fn enforce(files: &HostFiles) -> Result<u32, crate::ruleset::RulesError> {
    FileRules::new(files, Network::None)?.enforce()
}

/// Reports a missing part of the confinement.
fn missing(strictness: Strictness, part: &str, protects: &str) -> io::Result<()> {
    let reason = format!("cannot confine {protects}: this host has no {part}");
    match strictness {
        Strictness::BestEffort => {
            tracing::warn!("{reason}");
            Ok(())
        }
        Strictness::Required => Err(io::Error::new(io::ErrorKind::Unsupported, reason)),
    }
}

/// Fails if this process has several threads.
pub(crate) fn refuse_threads() -> io::Result<()> {
    // Without /proc, the threads cannot be counted; all callers come before any thread.
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 {
        return Ok(());
    }
    let reason = "cannot confine a process with several threads";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}
