//! The filesystems that the contenders open.

use std::process::Command;

/// The filesystem of the Debian tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Filesystem {
    /// ext4, which diskfs reads and writes.
    Ext4,
    /// XFS, which diskfs reads, and writes through a kernel in a microVM.
    Xfs,
    /// btrfs, which diskfs reads, and writes through a kernel in a microVM.
    Btrfs,
}

impl Filesystem {
    /// Returns the name in mount(8) and mkfs(8).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Returns true if diskfs has a driver that writes to it, and needs no microVM.
    pub(crate) fn is_written(self) -> bool {
        self == Self::Ext4
    }

    /// Returns the command that makes the filesystem in the file that is added as the last
    /// argument. The command leaves nothing to be initialised in the background: a kernel thread
    /// that does this would be measured together with the contender.
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
