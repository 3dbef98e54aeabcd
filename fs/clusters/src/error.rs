//! The errors: damage that both filesystems can have, and failures of the underlying device.

use diskfs_vfs::{Error, ErrorKind};

use crate::chain::Cluster;

/// A structure that contradicts the specification.
#[derive(Debug, thiserror::Error)]
pub enum Corrupt {
    /// A chain that starts outside of the filesystem.
    #[error(
        "invalid cluster chain: first cluster is {cluster}, the filesystem has {clusters} clusters"
    )]
    FirstCluster {
        /// The chain's first cluster.
        cluster: Cluster,
        /// The number of clusters that exist.
        clusters: u32,
    },
    /// A chain whose next cluster is outside of the filesystem or free.
    #[error(
        "invalid chain from cluster {first}: {cluster} leads to {value:#x}, which is free or too high"
    )]
    Link {
        /// The chain's first cluster.
        first: Cluster,
        /// The cluster whose entry in the table is invalid.
        cluster: Cluster,
        /// The invalid value of that entry.
        value: u32,
    },
    /// A chain that is shorter than its file.
    #[error(
        "the chain from cluster {first} is shorter than its file: it ends after {clusters} clusters"
    )]
    ShortChain {
        /// The chain's first cluster; 0 if it has none.
        first: Cluster,
        /// The number of clusters of the chain.
        clusters: u32,
    },
    /// Directories nested deeper than any path can reach, or within each other.
    #[error("directories are nested more than {0} levels deep")]
    TooDeep(usize),
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}

/// Converts an error of the underlying device to an error of the filesystem. The filesystem checks
/// its requests against the size of the device, so "out of bounds" means that the device is shorter
/// than it said.
pub fn device_failed(e: diskfs_block::Error) -> Error {
    use diskfs_block::ErrorKind as Device;
    let kind = match e.kind() {
        Device::Corrupt => ErrorKind::Corrupt,
        Device::Unsupported => ErrorKind::Unsupported,
        Device::Denied | Device::Locked => ErrorKind::Denied,
        Device::Cancelled => ErrorKind::Cancelled,
        Device::ReadOnly => ErrorKind::ReadOnly,
        Device::NoSpace => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    let reason = match kind {
        ErrorKind::NoSpace => "no space left on the host for the image",
        _ => "the underlying device failed",
    };
    let error = Error::new(kind, reason);
    match e.offset() {
        Some(offset) => error.at(offset),
        None => error,
    }
    .with_source(e)
}
