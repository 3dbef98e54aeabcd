//! The ways to start a machine.

use std::fmt::Debug;
use std::process::Command;
use std::time::Duration;

use super::boot_files::Appliance;
use super::confine::Confinement;
use super::options::VmOptions;
use super::run_dir::RunDir;
use diskfs_disk::Result;

/// A starter of machines of one [`Kind`](super::Kind).
pub(super) trait Backend: Debug + Send + Sync {
    /// What is to be run, or why it can't be: a program or a file that is missing, a device that does
    /// not work. Takes milliseconds, and starts nothing. Where there are several ways, the fastest comes first,
    /// and the last one is the surest.
    ///
    /// # Errors
    /// `Unsupported`, with what is missing and the command that mends it.
    fn prepare(&self, appliance: &Appliance, options: &VmOptions)
    -> Result<Vec<Box<dyn Prepared>>>;
}

/// A machine that could be started.
pub(super) trait Prepared: Debug {
    /// What the verdict on it depends on besides the host: the files that are run.
    fn files(&self) -> Vec<std::path::PathBuf>;

    /// How long it may take until it answers.
    fn deadline(&self) -> Duration;

    /// The program to run, with so many disks, whose sockets are in `dir`, and what it may do.
    fn command(&self, dir: &RunDir, disks: usize) -> (Command, Confinement);

    /// How the agent in the machine is reached.
    fn channel(&self) -> Channel;
}

/// How the agent in a machine is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// By a console that this process serves to the machine, at [`RunDir::console`].
    VhostUser,
    /// By a stream that the machine's own console is connected to, at [`RunDir::console`].
    Stream,
}
