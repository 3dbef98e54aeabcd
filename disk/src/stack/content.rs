//! The content of a volume: kind, label and UUID.

use std::fmt;

use diskfs_luks::Header;

/// The kind of a volume that is encrypted with LUKS.
pub(super) const LUKS: &str = "crypto_LUKS";

/// What a volume holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// The kind as `blkid` and fstab(5) name it: `ext4`, `vfat`, `LVM2_member`.
    pub kind: &'static str,
    /// What sort of thing that is.
    pub class: ContentClass,
    /// The label; empty without one, and where only the whole filesystem would tell it.
    pub label: Vec<u8>,
    /// The UUID or serial number as `blkid` prints it.
    pub uuid: Option<String>,
}

/// What sort of thing a volume holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentClass {
    /// Files.
    Filesystem,
    /// Further volumes, or one behind a key: LVM, RAID, LUKS.
    Container,
    /// Swapped out memory.
    Swap,
}

impl fmt::Display for ContentClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filesystem => "filesystem",
            Self::Container => "container",
            Self::Swap => "swap",
        })
    }
}

impl Content {
    /// Returns what a volume with this header holds.
    pub(super) fn of_luks(header: &Header) -> Self {
        Self {
            kind: LUKS,
            class: ContentClass::Container,
            label: header.label().as_bytes().to_vec(),
            uuid: Some(header.uuid().to_owned()).filter(|uuid| !uuid.is_empty()),
        }
    }

    /// The label as text, or `None` without one.
    pub fn label(&self) -> Option<String> {
        (!self.label.is_empty()).then(|| String::from_utf8_lossy(&self.label).into_owned())
    }

    /// Whether diskfs has a driver that reads it.
    pub fn is_readable(&self) -> bool {
        matches!(
            self.kind,
            "exfat" | "ext2" | "ext3" | "ext4" | "iso9660" | "vfat"
        )
    }
}
