//! Filesystems of a plan.

use serde::{Deserialize, Serialize};

/// A filesystem or a swap area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FilesystemPlan {
    /// The type.
    #[serde(rename = "type")]
    pub kind: FilesystemKind,
    /// The label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The UUID; for FAT and exFAT the serial number, as `1234-ABCD`. Default: derived from the
    /// seed, else random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The mount point. It selects the files of the filesystem, and is written to `/etc/fstab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// The mount options in `/etc/fstab`. Default: depends on the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}

/// A type of filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemKind {
    /// An ext4 filesystem.
    Ext4,
    /// An ext3 filesystem.
    Ext3,
    /// An ext2 filesystem.
    Ext2,
    /// A FAT filesystem, as the EFI system partition has it.
    Fat,
    /// An exFAT filesystem.
    Exfat,
    /// A swap area, which has no mount point.
    Swap,
    /// An XFS filesystem, which a microVM creates and fills.
    Xfs,
    /// A btrfs filesystem, which a microVM creates and fills.
    Btrfs,
}

impl FilesystemPlan {
    /// Returns a filesystem without label and mount point.
    pub const fn new(kind: FilesystemKind) -> Self {
        Self {
            kind,
            label: String::new(),
            uuid: None,
            mount: None,
            options: None,
        }
    }
}

impl FilesystemKind {
    /// Returns the name in `/etc/fstab`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Ext3 => "ext3",
            Self::Ext2 => "ext2",
            Self::Fat => "vfat",
            Self::Exfat => "exfat",
            Self::Swap => "swap",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Returns true if the filesystem can't store owners, symlinks and devices.
    pub const fn is_fat(self) -> bool {
        matches!(self, Self::Fat | Self::Exfat)
    }
}
