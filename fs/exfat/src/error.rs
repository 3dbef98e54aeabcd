//! Why something fails, in detail; at the crate's edge it becomes a [`diskfs_vfs::Error`].

use diskfs_clusters::Cluster;

pub(crate) use diskfs_clusters::device_failed;
pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// The bytes contradict the specification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("boot sector has {field} {value:#x}, which is out of range ({range})")]
    BootSector {
        field: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error("boot region has the checksum {found:#x}, but says {stored:#x}")]
    BootChecksum { found: u32, stored: u32 },
    #[error("bad geometry: {needed_bytes} bytes of filesystem exceed the device's {device_bytes}")]
    LargerThanDevice {
        needed_bytes: u64,
        device_bytes: u64,
    },
    #[error("root directory has no {0}")]
    NoSuchRootEntry(&'static str),
    #[error("{what} is {found} bytes long, not {range}")]
    Length {
        what: &'static str,
        found: u64,
        range: &'static str,
    },
    #[error("up-case table has the checksum {found:#x}, but its entry says {stored:#x}")]
    UpcaseChecksum { found: u32, stored: u32 },
    #[error("{count} clusters in a row from {first} on are not among the filesystem's {clusters}")]
    Contiguous {
        first: Cluster,
        count: u32,
        clusters: u32,
    },
    #[error(
        "file of {size_bytes} bytes, {valid_bytes} of them valid, on a filesystem of {heap_bytes}"
    )]
    Size {
        size_bytes: u64,
        valid_bytes: u64,
        heap_bytes: u64,
    },
    #[error("directory entry set makes no sense: {0}")]
    EntrySet(&'static str),
    #[error("directory entry set has the checksum {found:#x}, but says {stored:#x}")]
    SetChecksum { found: u16, stored: u16 },
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}
