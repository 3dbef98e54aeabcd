//! The content of a volume: kind, label and UUID.

use std::fmt;

use diskfs_luks::Header;

/// The kind of a volume that is encrypted with LUKS.
pub(super) const LUKS: &str = "crypto_LUKS";

/// The content of a volume, as its superblock or header identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// The kind as `blkid` and fstab(5) name it: `ext4`, `vfat`, `LVM2_member`.
    pub kind: &'static str,
    /// The class of the kind.
    pub class: ContentClass,
    /// The label; empty without one, and for kinds whose label only a driver can read.
    pub label: Vec<u8>,
    /// The UUID or serial number, as `blkid` prints it.
    pub uuid: Option<String>,
}

/// The class of a volume's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentClass {
    /// A filesystem with files.
    Filesystem,
    /// A container of other volumes, or of an encrypted one: LVM, RAID, LUKS.
    Container,
    /// Swap space for memory pages.
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
    /// Returns the content of a volume with this LUKS header.
    pub(super) fn of_luks(header: &Header) -> Self {
        Self {
            kind: LUKS,
            class: ContentClass::Container,
            label: header.label().as_bytes().to_vec(),
            uuid: Some(header.uuid().to_owned()).filter(|uuid| !uuid.is_empty()),
        }
    }

    /// Returns the label as text, or `None` without one.
    pub fn label(&self) -> Option<String> {
        (!self.label.is_empty()).then(|| String::from_utf8_lossy(&self.label).into_owned())
    }

    /// Returns true if diskfs has a driver that writes it.
    pub fn is_writable(&self) -> bool {
        matches!(self.kind, "exfat" | "ext2" | "ext3" | "ext4" | "vfat")
    }

    /// Returns true if diskfs has a driver that reads it.
    pub fn is_readable(&self) -> bool {
        matches!(
            self.kind,
            "btrfs"
                | "erofs"
                | "exfat"
                | "ext2"
                | "ext3"
                | "ext4"
                | "iso9660"
                | "squashfs"
                | "vfat"
                | "xfs"
        )
    }
}
