//! The filesystems that the contenders open.

use std::process::Command;

/// What the Debian tree lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Filesystem {
    /// diskfs has a driver for it.
    Ext4,
    /// diskfs opens it by a kernel in a microVM.
    Xfs,
    /// The same.
    Btrfs,
}

impl Filesystem {
    /// The name that mount(8) and mkfs(8) know it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Whether diskfs opens it by itself, without a machine.
    pub(crate) fn has_driver(self) -> bool {
        self == Self::Ext4
    }

    /// The command that makes it in the file that is its last argument, with nothing left to be
    /// initialised in the background: a kernel's thread that does so would be measured with what it
    /// runs beside.
    pub(crate) fn mkfs(self) -> Command {
        let mut mkfs = Command::new(format!("mkfs.{}", self.name()));
        mkfs.args(["-q", "-L", "bench"]);
        match self {
            Self::Ext4 => mkfs.args(["-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            Self::Xfs | Self::Btrfs => mkfs.arg("-f"),
        };
        mkfs
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_option_takes_the_names_that_mount_knows() {
        for filesystem in Filesystem::value_variants() {
            let name = Filesystem::from_str(filesystem.name(), false);
            assert_eq!(name, Ok(*filesystem));
        }
    }
}
