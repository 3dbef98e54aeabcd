//! What a volume holds, told from its magic numbers: kind, label and UUID, without opening it.
//!
//! The first 8 KiB are read at once, where nearly all have their magic, and elsewhere only when
//! nothing is told there. Layouts are those of the kinds' own specifications, named at each.

use std::fmt;

use diskfs_block::{BlockRead, Result};

use super::{lost_ext, lost_luks, magic};

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
    /// What `device` holds, or `None` for nothing that is known here.
    ///
    /// # Errors
    /// As reading the device.
    pub fn probe(device: &dyn BlockRead) -> Result<Option<Self>> {
        if let Some(told) = magic::probe(device)? {
            return Ok(Some(told));
        }
        let lost = lost_luks::probe(device)?;
        Ok(lost.or_else(|| lost_ext::probe(device)))
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
