//! The errors in detail. Public functions convert them to [`diskfs_vfs::Error`].

use diskfs_clusters::Cluster;

pub(crate) use diskfs_clusters::device_failed;
pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// A structure that contradicts the specification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("invalid boot sector: {field} is {value:#x}, expected {range}")]
    BootSector {
        field: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error("invalid boot region: checksum is {found:#x}, expected {stored:#x}")]
    BootChecksum { found: u32, stored: u32 },
    #[error(
        "invalid geometry: the filesystem needs {needed_bytes} bytes, the device has {device_bytes}"
    )]
    LargerThanDevice {
        needed_bytes: u64,
        device_bytes: u64,
    },
    #[error("invalid root directory: missing {0}")]
    NoSuchRootEntry(&'static str),
    #[error("invalid {what}: length is {found} bytes, expected {range}")]
    Length {
        what: &'static str,
        found: u64,
        range: &'static str,
    },
    #[error("invalid up-case table: checksum is {found:#x}, expected {stored:#x}")]
    UpcaseChecksum { found: u32, stored: u32 },
    #[error("invalid file: {count} clusters from {first} on, the filesystem has {clusters}")]
    Contiguous {
        first: Cluster,
        count: u32,
        clusters: u32,
    },
    #[error(
        "invalid file: size {size_bytes}, valid length {valid_bytes}, filesystem {heap_bytes} bytes"
    )]
    Size {
        size_bytes: u64,
        valid_bytes: u64,
        heap_bytes: u64,
    },
    #[error("invalid directory entry set: {0}")]
    EntrySet(&'static str),
    #[error("invalid directory entry set: checksum is {found:#x}, expected {stored:#x}")]
    SetChecksum { found: u16, stored: u16 },
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}
