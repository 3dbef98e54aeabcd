//! Why something fails: damage that both filesystems know, and failures of the device below.

use diskfs_vfs::{Error, ErrorKind};

use crate::chain::Cluster;

/// A structure that contradicts the specification.
#[derive(Debug, thiserror::Error)]
pub enum Corrupt {
    /// A chain that begins outside of the filesystem.
    #[error(
        "cluster {cluster}, the beginning of a chain, is not among the filesystem's {clusters}"
    )]
    FirstCluster {
        /// The cluster.
        cluster: Cluster,
        /// The number of clusters that exist.
        clusters: u32,
    },
    /// A chain that leaves the filesystem, or goes on in a free cluster.
    #[error(
        "the chain from cluster {first} goes on from {cluster} to {value:#x}, which is no cluster in use"
    )]
    Link {
        /// The chain's first cluster.
        first: Cluster,
        /// The cluster whose entry in the table is invalid.
        cluster: Cluster,
        /// The entry.
        value: u32,
    },
    /// A chain that is shorter than its file.
    #[error("the chain from cluster {first} ends after {clusters} clusters, before the file does")]
    ShortChain {
        /// The chain's first cluster; 0 if it has none.
        first: Cluster,
        /// The number of its clusters.
        clusters: u32,
    },
    /// Directories that seem to lie within each other.
    #[error("directories are more than {0} deep")]
    TooDeep(usize),
}

impl From<Corrupt> for Error {
    fn from(reason: Corrupt) -> Self {
        Self::new(ErrorKind::Corrupt, reason.to_string())
    }
}

/// A failure of the device below, as one of the filesystem. What the filesystem asks for lies
/// within the device, so an answer of "out of bounds" means that the device is shorter than it said.
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
    let error = Error::new(kind, "the device below the filesystem failed");
    match e.offset() {
        Some(offset) => error.at(offset),
        None => error,
    }
    .with_source(e)
}
