//! How microVMs are started.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::boot_files::GuestKernel;

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
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which backend is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first one that works.
    #[default]
    Auto,
    /// This one and no other.
    Only(Kind),
    /// None: filesystems without a driver are *unsupported*.
    None,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let mut kinds = Kind::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == text)
            .map(Self::Only)
            .ok_or_else(|| {
                let names = Kind::ALL.map(Kind::name).join(", ");
                format!("`{text}` is none of auto, {names}, none")
            })
    }
}

/// How microVMs are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmOptions {
    /// Which backend.
    pub choice: Choice,
    /// The directory of the [appliance](super::appliance), before all others.
    pub appliance: Option<PathBuf>,
    /// A kernel that is taken instead of the appliance's. Only QEMU boots it.
    pub kernel: Option<GuestKernel>,
    /// The machine's memory, at most; what it does not use is not taken from the host.
    pub memory_mib: u32,
    /// How long a machine may take until it answers; `None` for what is usual for its backend.
    pub deadline: Option<Duration>,
    /// How long a call may take before the machine is taken for one that hangs, and killed: its filesystem is as after
    /// a power cut then. Programs may take as long as they like.
    pub call_deadline: Duration,
    /// How many booted machines that have never mounted anything are kept waiting for the next image, so that to
    /// mount it takes milliseconds. Each takes some 40 MiB.
    pub pool: u8,
    /// Whether a machine has a network, for the programs that run in it: whatever this user reaches, it reaches. Only
    /// QEMU gives one.
    pub network: bool,
}

impl VmOptions {
    /// Enough for the metadata of filesystems of any size in practice: with less than 128 MiB a kernel
    /// that makes thousands of files runs out of memory.
    pub const DEFAULT_MEMORY_MIB: u32 = 256;
    /// More than it takes to write all that a machine's memory holds to the slowest of disks.
    pub const DEFAULT_CALL_DEADLINE: Duration = Duration::from_mins(10);
}

impl Default for VmOptions {
    fn default() -> Self {
        Self {
            choice: Choice::Auto,
            appliance: None,
            kernel: None,
            memory_mib: Self::DEFAULT_MEMORY_MIB,
            deadline: None,
            call_deadline: Self::DEFAULT_CALL_DEADLINE,
            pool: 0,
            network: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_spelt_as_the_backends() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("none".parse(), Ok(Choice::None));
        assert_eq!("uml".parse(), Ok(Choice::Only(Kind::Uml)));
        assert_eq!("qemu-tcg".parse(), Ok(Choice::Only(Kind::QemuTcg)));
        assert!("kvm".parse::<Choice>().is_err());
    }
}
