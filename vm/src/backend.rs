//! The interface of the backends that start machines.

use std::fmt::Debug;
use std::process::Command;
use std::time::Duration;

use super::boot_files::Appliance;
use super::confine::Confinement;
use super::options::VmOptions;
use super::run_dir::RunDir;
use diskfs_disk::Result;

/// A backend that starts machines of one [`BackendKind`](super::BackendKind).
pub(super) trait Backend: Debug + Send + Sync {
    /// Returns the ways to start a machine, or the reason why none is possible: a missing program
    /// or file, or a device that does not work. This takes milliseconds and starts nothing. The
    /// fastest way comes first, the most reliable one last.
    ///
    /// # Errors
    /// Fails with `Unsupported`; the message names what is missing and the command that provides
    /// it.
    fn prepare(&self, appliance: &Appliance, options: &VmOptions)
    -> Result<Vec<Box<dyn Prepared>>>;
}

/// A machine that is ready to be started.
pub(super) trait Prepared: Debug {
    /// Returns the files that are run: besides the host, a verdict depends on them.
    fn files(&self) -> Vec<std::path::PathBuf>;

    /// Returns how long the machine may take until the agent answers.
    fn deadline(&self) -> Duration;

    /// Returns the command that runs a machine with `disks` disks, whose sockets are in `dir`, and
    /// its confinement.
    ///
    /// # Errors
    /// Fails if a file that the machine inherits can't be opened.
    fn command(&self, dir: &RunDir, disks: usize) -> Result<(Command, Confinement)>;

    /// Returns the kind of stream to the agent.
    fn channel(&self) -> Channel;
}

/// The kind of stream to the agent in a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// A console that this process serves to the machine, at [`RunDir::console`].
    VhostUser,
    /// A stream socket that the machine's own console connects to, at [`RunDir::console`].
    Stream,
}
