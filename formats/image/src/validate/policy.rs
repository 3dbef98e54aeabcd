//! The policies: the rules of the programs that take images from strangers.

use std::fmt;
use std::str::FromStr;

use diskfs_block::{Error, Result};

use crate::Format;

/// The rules of a program that takes images from strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// KubeVirt: disks that `virt-launcher` runs as they are (`VerifyImage`).
    Kubevirt,
    /// KubeVirt's Containerized Data Importer, which converts images to raw.
    Cdi,
    /// OpenStack Glance, Nova and Cinder: the safety checks of oslo's `format_inspector`.
    Glance,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Kubevirt, Self::Cdi, Self::Glance];

    /// Returns the name of the policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubevirt => "kubevirt",
            Self::Cdi => "cdi",
            Self::Glance => "glance",
        }
    }

    /// Returns the formats that the program takes.
    pub const fn formats(self) -> &'static [Format] {
        match self {
            Self::Kubevirt => &[Format::Raw, Format::Qcow2],
            Self::Cdi | Self::Glance => &[
                Format::Raw,
                Format::Qcow2,
                Format::Vmdk,
                Format::Vdi,
                Format::Vhd,
                Format::Vhdx,
            ],
        }
    }

    /// Returns true if the program decompresses and unpacks what it takes.
    pub(super) const fn unpacks(self) -> bool {
        matches!(self, Self::Cdi)
    }

    /// Returns true if the program refuses hybrid ISO images, which have a partition table.
    pub(super) const fn refuses_hybrids(self) -> bool {
        matches!(self, Self::Glance)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| {
            let reason = format!("unknown policy `{}`", name.escape_debug());
            Error::invalid(reason).with_hint("known: kubevirt, cdi, glance")
        })
    }
}
