//! The ways to start a machine.

use std::fmt;
use std::fmt::Debug;
use std::process::Command;
use std::time::Duration;

use super::appliance::Appliance;
use super::confine::Confinement;
use super::qemu::{Accelerator, Qemu};
use super::run_dir::RunDir;
use super::{VmOptions, uml};
use diskfs_disk::Result;

/// A way to start a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// User Mode Linux: a kernel that is an ordinary process. x86-64 Linux only.
    Uml,
    /// QEMU with KVM.
    QemuKvm,
    /// QEMU that emulates the processor.
    QemuTcg,
}

impl Kind {
    /// In the order in which they are tried: by how fast they start.
    pub const ALL: [Self; 3] = [Self::Uml, Self::QemuKvm, Self::QemuTcg];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uml => "uml",
            Self::QemuKvm => "qemu-kvm",
            Self::QemuTcg => "qemu-tcg",
        }
    }

    pub(super) fn backend(self) -> Box<dyn Backend> {
        match self {
            Self::Uml => Box::new(uml::Uml),
            Self::QemuKvm => Box::new(Qemu(Accelerator::Kvm)),
            Self::QemuTcg => Box::new(Qemu(Accelerator::Tcg)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What starts machines of one [`Kind`].
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
