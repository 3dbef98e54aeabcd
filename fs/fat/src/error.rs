//! The errors in detail. Public functions convert them to [`diskfs_vfs::Error`].

use diskfs_clusters::Cluster;

pub(crate) use diskfs_clusters::device_failed;
pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// A structure that contradicts the specification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("invalid boot sector: {field} is {value}, expected {range}")]
    BootSector {
        field: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error(
        "invalid geometry: the filesystem needs {needed_bytes} bytes, the device has {device_bytes}"
    )]
    LargerThanDevice {
        needed_bytes: u64,
        device_bytes: u64,
    },
    #[error("invalid geometry: no space for a cluster after the tables")]
    NoClusters,
    #[error("invalid directory: it has no clusters")]
    EmptyDirectory,
    #[error("invalid directory at cluster {0}: missing entry `..` at its beginning")]
    DotDot(Cluster),
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}
