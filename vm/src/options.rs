//! The options for starting microVMs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::boot_files::GuestKernel;

/// A backend that starts machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// User Mode Linux: a kernel that is an ordinary process. Only on x86-64 Linux.
    Uml,
    /// QEMU with KVM.
    QemuKvm,
    /// QEMU that emulates the processor.
    QemuTcg,
}

impl BackendKind {
    /// All backends, in the order in which they are tried: the fastest to start comes first.
    pub const ALL: [Self; 3] = [Self::Uml, Self::QemuKvm, Self::QemuTcg];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uml => "uml",
            Self::QemuKvm => "qemu-kvm",
            Self::QemuTcg => "qemu-tcg",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The choice of the backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The first backend that works.
    #[default]
    Auto,
    /// This backend only.
    Only(BackendKind),
    /// No backend: filesystems without a driver are *unsupported*.
    None,
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let mut kinds = BackendKind::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == text)
            .map(Self::Only)
            .ok_or_else(|| {
                let names = BackendKind::ALL.map(BackendKind::name).join(", ");
                format!("unknown backend `{text}`; known: auto, {names}, none")
            })
    }
}

/// The options for starting microVMs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmOptions {
    /// The choice of the backend.
    pub choice: BackendChoice,
    /// The directory of the [appliance](super::appliance); it precedes all others.
    pub appliance: Option<PathBuf>,
    /// A kernel of a guest to boot instead of the appliance's. Only QEMU boots it.
    pub kernel: Option<GuestKernel>,
    /// The maximum memory of a machine in MiB; the host provides only what the machine uses.
    pub memory_mib: u32,
    /// The time until a machine must answer; `None` for the backend's default.
    pub deadline: Option<Duration>,
    /// The time until a call must be answered. After that the machine is assumed to hang and is
    /// killed: its filesystems are then as after a power cut. A machine that uses its disks
    /// meanwhile has twenty times as long, and programs may run without limit.
    pub call_deadline: Duration,
    /// True if machines have a network for the programs that run in them. Such a program reaches
    /// everything that this user reaches. Only QEMU provides it.
    pub network: bool,
}

impl VmOptions {
    /// The default of [`memory_mib`](Self::memory_mib): enough for the metadata of filesystems of
    /// any size in practice. With less than 128 MiB, a kernel that creates thousands of files runs
    /// out of memory.
    pub const DEFAULT_MEMORY_MIB: u32 = 256;
    /// The default of [`call_deadline`](Self::call_deadline).
    pub const DEFAULT_CALL_DEADLINE: Duration = Duration::from_secs(30);
}

impl Default for VmOptions {
    fn default() -> Self {
        Self {
            choice: BackendChoice::Auto,
            appliance: None,
            kernel: None,
            memory_mib: Self::DEFAULT_MEMORY_MIB,
            deadline: None,
            call_deadline: Self::DEFAULT_CALL_DEADLINE,
            network: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_spelt_as_the_backends() {
        assert_eq!("auto".parse(), Ok(BackendChoice::Auto));
        assert_eq!("none".parse(), Ok(BackendChoice::None));
        assert_eq!("uml".parse(), Ok(BackendChoice::Only(BackendKind::Uml)));
        assert_eq!(
            "qemu-tcg".parse(),
            Ok(BackendChoice::Only(BackendKind::QemuTcg))
        );
        assert!("kvm".parse::<BackendChoice>().is_err());
    }
}
