//! The detailed reasons of failures; outside of the crate they become [`diskfs_vfs::Error`].

use diskfs_vfs::InodeNumber;

use crate::block::{FileBlock, FsBlock};

pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// The structures that have a checksum, or are named in messages for another reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Structure {
    Superblock,
    GroupDescriptor(u32),
    BlockBitmap(u32),
    InodeBitmap(u32),
    Inode(u32),
    ExtentBlock(FsBlock),
    IndirectBlock(FsBlock),
    DirectoryBlock(FileBlock),
    HtreeBlock(FileBlock),
    XattrBlock(FsBlock),
    XattrValue(u32),
    OrphanBlock(FsBlock),
}

impl std::fmt::Display for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superblock => f.write_str("superblock"),
            Self::GroupDescriptor(group) => write!(f, "descriptor of block group {group}"),
            Self::BlockBitmap(group) => write!(f, "block bitmap of block group {group}"),
            Self::InodeBitmap(group) => write!(f, "inode bitmap of block group {group}"),
            Self::Inode(inode) => write!(f, "inode {inode}"),
            Self::ExtentBlock(block) => write!(f, "extent block {block}"),
            Self::IndirectBlock(block) => write!(f, "indirect block {block}"),
            Self::DirectoryBlock(block) => write!(f, "directory block {block}"),
            Self::HtreeBlock(block) => write!(f, "htree block {block}"),
            Self::XattrBlock(block) => write!(f, "xattr block {block}"),
            Self::OrphanBlock(block) => write!(f, "orphan file block {block}"),
            Self::XattrValue(inode) => write!(f, "xattr value in inode {inode}"),
        }
    }
}

/// The errors for bytes that contradict the specification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("invalid {structure}: checksum is {actual:#x}, expected {expected:#x}")]
    Checksum {
        structure: Structure,
        expected: u32,
        actual: u32,
    },
    #[error("invalid {structure}: magic is {actual:#x}, expected {expected:#x}")]
    Magic {
        structure: Structure,
        expected: u32,
        actual: u32,
    },
    #[error("invalid {structure}: {field} is {value}, expected {range}")]
    Field {
        structure: Structure,
        field: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error("{structure} refers to block {block}, outside of the filesystem ({blocks} blocks)")]
    BlockOutside {
        structure: Structure,
        block: FsBlock,
        blocks: u64,
    },
    #[error("{structure}: {problem}")]
    Malformed {
        structure: Structure,
        problem: &'static str,
    },
    #[error(
        "bad geometry: {blocks} blocks of {block_size} bytes exceed the device's {device_bytes} bytes"
    )]
    LargerThanDevice {
        blocks: u64,
        block_size: u32,
        device_bytes: u64,
    },
    #[error("directory entry at byte {entry:#x} of the directory: {problem}")]
    DirectoryEntry { entry: u64, problem: &'static str },
}

/// Returns [`Corrupt::Malformed`] as an error.
pub(crate) fn malformed(structure: Structure, problem: &'static str) -> Error {
    Corrupt::Malformed { structure, problem }.into()
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}

/// The errors for valid filesystems that this driver cannot read or write.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsupported {
    #[error("unsupported features: {}", .0.join(", "))]
    Features(Vec<String>),
    #[error("unknown revision {0} of the format")]
    Revision(u32),
    #[error("is the external journal of an ext4 filesystem, not a filesystem")]
    JournalDevice,
    #[error("needs recovery by an external journal, which is on another device")]
    ExternalJournal,
    #[error("the file's contents are encrypted")]
    Encrypted,
    #[error("the names in the directory are encrypted, and cannot be changed without the key")]
    EncryptedDirectory,
    #[error("the file is protected by fs-verity, and its contents cannot be changed")]
    Verity,
}

impl From<Unsupported> for Error {
    fn from(reason: Unsupported) -> Self {
        Self::new(ErrorKind::Unsupported, reason.to_string())
    }
}

/// Converts a failure of the device below into an error of the filesystem. The filesystem accesses
/// only bytes within the device, so an "out of bounds" failure means that the device is shorter
/// than it reported.
pub(crate) fn device_failed(e: diskfs_block::Error) -> Error {
    use diskfs_block::ErrorKind as Device;
    let kind = match e.kind() {
        Device::Corrupt => ErrorKind::Corrupt,
        Device::Unsupported => ErrorKind::Unsupported,
        Device::Denied | Device::Locked => ErrorKind::Denied,
        Device::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Io,
    };
    let error = Error::new(kind, "cannot read the device below the filesystem");
    match e.offset() {
        Some(offset) => error.at(offset),
        None => error,
    }
    .with_source(e)
}

/// Converts a failure to write to the device into an error of the filesystem.
pub(crate) fn write_failed(e: diskfs_block::Error) -> Error {
    if e.kind() == diskfs_block::ErrorKind::NoSpace {
        let reason = "no space left on the host for the image";
        return Error::new(ErrorKind::NoSpace, reason).with_source(e);
    }
    if e.kind() == diskfs_block::ErrorKind::Io {
        let error = Error::new(
            ErrorKind::Io,
            "cannot write to the device below the filesystem",
        );
        return match e.offset() {
            Some(offset) => error.at(offset).with_source(e),
            None => error.with_source(e),
        };
    }
    device_failed(e)
}

/// An extension of results and errors that adds the inode concerned.
pub(crate) trait InInode<T> {
    /// Adds the inode's number, unless an inner call has already added one.
    fn in_inode(self, inode: u32) -> Result<T>;
}

impl<T, E: Into<Error>> InInode<T> for std::result::Result<T, E> {
    fn in_inode(self, inode: u32) -> Result<T> {
        self.map_err(|e| e.into().in_inode(InodeNumber(u64::from(inode))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_names_structure_and_values() {
        let e: Result<()> = Err(Corrupt::Checksum {
            structure: Structure::ExtentBlock(FsBlock(77)),
            expected: 0x12,
            actual: 0xab,
        })
        .in_inode(13);
        let e = e.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert_eq!(
            e.to_string(),
            "invalid extent block 77: checksum is 0xab, expected 0x12 (inode 13)"
        );
    }

    #[test]
    fn the_device_is_the_source() {
        let below = diskfs_block::Error::corrupt("bad L2 entry").at(0x400);
        let e = device_failed(below);
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        let source = std::error::Error::source(&e).unwrap().to_string();
        assert_eq!(source, "bad L2 entry (at byte 0x400)");
    }
}
