//! The guest on a disk: its system, and its tree.

use diskfs_disk::guest::{self, System as Found};
use diskfs_disk::{Disk, Filesystem, Result};
use serde::{Deserialize, Serialize};

/// The identity of a system, with the host-deployer's names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The kind of the system.
    pub kind: SystemKind,
    /// The name of the distribution.
    pub distro: String,
    /// The version.
    pub version: String,
    /// The architecture of its programs.
    pub arch: String,
    /// The language, of Windows only.
    pub language: String,
    /// The version of the present update, of Windows only.
    pub current_version: String,
    /// True if root logs in on such systems.
    pub permits_root_login: bool,
}

/// The kind of a system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SystemKind {
    /// Linux.
    #[default]
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    MacOs,
    /// `ESXi` of `VMware`.
    VmWare,
    /// Android.
    Android,
}

impl SystemKind {
    /// Returns the host-deployer's name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::MacOs => "macOs",
            Self::VmWare => "VMWare",
            Self::Android => "Android",
        }
    }
}

/// The kinds of filesystems that nobody can write to.
const READ_ONLY: [&str; 5] = ["iso9660", "squashfs", "erofs", "cramfs", "udf"];

/// A guest that was found on a disk.
pub(super) struct Guest {
    pub(super) found: Found,
    pub(super) filesystem: Filesystem,
    pub(super) system: System,
}

impl Guest {
    /// Returns the first system on a disk, or `None` if there is none.
    ///
    /// # Errors
    /// The error of the first volume that may hold a system and cannot be read, if no other volume
    /// has one.
    pub(super) fn find(disk: &Disk) -> Result<Option<Self>> {
        let Some(found) = guest::systems(disk)?.into_iter().next() else {
            if guest::unopened(disk)?.is_empty() {
                return Ok(None);
            }
            return Err(guest::no_system(disk));
        };
        let filesystem = found.filesystem()?;
        let system = super::systems::identify(&filesystem)?;
        Ok(Some(Self {
            found,
            filesystem,
            system,
        }))
    }

    /// Returns true if the root filesystem is of a kind that cannot be written.
    pub(super) fn is_read_only(&self) -> Result<bool> {
        let content = self.found.volume().content()?;
        Ok(content.is_some_and(|content| READ_ONLY.contains(&content.kind)))
    }
}
