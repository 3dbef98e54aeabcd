//! The supported image formats.

use std::fmt;
use std::str::FromStr;

use diskfs_block::{Error, Result};

/// The format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The raw format: the guest's bytes themselves.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
    /// VirtualBox's format.
    Vdi,
    /// Virtual PC's and Hyper-V's first format, which QEMU calls vpc.
    Vhd,
    /// Hyper-V's second format.
    Vhdx,
    /// VMware's format.
    Vmdk,
    /// QEMU's enhanced disks.
    Qed,
    /// Parallels' format.
    Parallels,
    /// QEMU's copy-on-write format, version 1.
    Qcow,
    /// Apple's format.
    Dmg,
    /// A package of a virtual machine: an archive with its disks, or an OVF beside them.
    Ova,
    /// A raw disk that is compressed as a whole: gzip, bzip2, xz, zstd or LZ4.
    Compressed,
}

/// The names of the supported formats, for messages.
pub(crate) const SUPPORTED: &str = "supported: raw, qcow2, vdi, vhd (vpc), vhdx, vmdk, qed, \
     parallels, qcow, dmg, ova, compressed; convert others with `qemu-img convert -O qcow2`";

impl Format {
    /// All formats.
    pub const ALL: [Self; 12] = [
        Self::Raw,
        Self::Qcow2,
        Self::Vdi,
        Self::Vhd,
        Self::Vhdx,
        Self::Vmdk,
        Self::Qed,
        Self::Parallels,
        Self::Qcow,
        Self::Dmg,
        Self::Ova,
        Self::Compressed,
    ];

    /// Returns the name: as QEMU spells it, but `vhd` instead of `vpc`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vdi => "vdi",
            Self::Vhd => "vhd",
            Self::Vhdx => "vhdx",
            Self::Vmdk => "vmdk",
            Self::Qed => "qed",
            Self::Parallels => "parallels",
            Self::Qcow => "qcow",
            Self::Dmg => "dmg",
            Self::Ova => "ova",
            Self::Compressed => "compressed",
        }
    }

    /// Returns the name as QEMU spells it, for the headers of images.
    pub const fn qemu_name(self) -> &'static str {
        match self {
            Self::Vhd => "vpc",
            other => other.name(),
        }
    }

    /// Returns true if images of the format can be changed. Images of the others are only read, and
    /// some are created as a whole ([`is_creatable`](Self::is_creatable)).
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Raw | Self::Qcow2)
    }

    /// Returns true if [`convert()`](crate::convert()) makes images of the format.
    pub const fn is_creatable(self) -> bool {
        matches!(
            self,
            Self::Raw | Self::Qcow2 | Self::Vmdk | Self::Vhd | Self::Vdi | Self::Vhdx
        )
    }

    /// Returns true if QEMU reads images of the format.
    pub const fn is_qemus(self) -> bool {
        !matches!(self, Self::Ova | Self::Compressed)
    }

    /// Returns true if the format can be that of a backing file: one that QEMU can write, so that
    /// tools expect it there.
    pub(crate) const fn can_back(self) -> bool {
        self.is_qemus() && !matches!(self, Self::Dmg)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    /// Parses a name, as we or as QEMU spell it.
    fn from_str(name: &str) -> Result<Self> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|format| format.name() == name || format.qemu_name() == name);
        found.ok_or_else(|| {
            let name = name.escape_default();
            Error::unsupported(format!("unsupported image format `{name}`")).with_hint(SUPPORTED)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
            assert_eq!(format.qemu_name().parse::<Format>().unwrap(), format);
            assert!(SUPPORTED.contains(format.name()));
        }
        let e = "cloop".parse::<Format>().unwrap_err();
        assert_eq!(e.kind(), diskfs_block::ErrorKind::Unsupported);
        assert!(e.to_string().contains("`cloop`"));
    }
}
