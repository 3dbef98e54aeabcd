//! Logical clusters of a compressed file, as their indexes describe them.

use crate::error::{Result, corrupt};
use crate::map_header::MapHeader;
use crate::place::Place;

/// The bit of a distance that stands for the number of blocks of the extent.
pub(crate) const BLOCK_COUNT: u32 = 1 << 11;

/// The kind of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// An extent that is not compressed begins here.
    Plain,
    /// An extent with the first algorithm begins here.
    Head1,
    /// No extent begins here.
    NonHead,
    /// An extent with the second algorithm begins here.
    Head2,
}

impl ClusterKind {
    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Plain,
            1 => Self::Head1,
            2 => Self::NonHead,
            _ => Self::Head2,
        }
    }
}

/// The index of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    pub(crate) kind: ClusterKind,
    /// The byte of the cluster at which the extent begins.
    pub(crate) offset: u64,
    /// The first block of the extent.
    pub(crate) block: u64,
    /// The number of clusters back to the head.
    pub(crate) back: u32,
    /// The number of clusters to the next head.
    pub(crate) ahead: u32,
    /// The number of blocks of the extent, if the index says it.
    pub(crate) blocks: Option<u32>,
    pub(crate) is_partial: bool,
    /// The place after the index, or after the pack of compact indexes.
    pub(crate) after: Place,
}

/// Returns the number of blocks in a distance.
pub(crate) fn block_count(header: &MapHeader, distance: u32, place: Place) -> Result<u32> {
    if !header.has_large_clusters() && !header.has_large_second_clusters() {
        let reason = "invalid cluster: a number of blocks in a file without large clusters";
        return Err(corrupt(reason, place.at));
    }
    Ok(distance & !BLOCK_COUNT)
}
