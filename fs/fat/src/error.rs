//! Why something fails, in detail; at the crate's edge it becomes a [`diskfs_vfs::Error`].

use diskfs_clusters::Cluster;

pub(crate) use diskfs_clusters::device_failed;
pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// The bytes contradict the specification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("boot sector has {field} {value}, which is out of range ({range})")]
    BootSector {
        field: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error("bad geometry: {needed_bytes} bytes of filesystem exceed the device's {device_bytes}")]
    LargerThanDevice {
        needed_bytes: u64,
        device_bytes: u64,
    },
    #[error("bad geometry: the tables leave no room for a cluster")]
    NoClusters,
    #[error("directory without clusters")]
    EmptyDirectory,
    #[error("the directory at cluster {0} has no entry .. at its beginning")]
    DotDot(Cluster),
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}
