//! The map of a disk: how it is stored, run by run.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::layer::{Layer, Status};
use crate::node::Node;

/// A run of the guest's disk, with the fields of `qemu-img map --output=json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the fields are those of `qemu-img map`"
)]
pub struct MapEntry {
    /// The offset in the guest's disk in bytes.
    pub start: u64,
    /// The length in bytes.
    pub len_bytes: u64,
    /// The depth in the backing chain at which the run is stored; 0 is the image itself.
    pub depth: u32,
    /// True if the run is allocated in some image of the chain.
    pub present: bool,
    /// True if the run reads as zeroes.
    pub zero: bool,
    /// True if the run is mapped to clusters. If they are holes of the file below, it is `zero`,
    /// too.
    pub data: bool,
    /// True if the run is compressed.
    pub compressed: bool,
    /// The offset in the file at `depth` (or in its external data file) at which the run is stored.
    pub host_offset: Option<u64>,
}

/// An iterator over the runs of a disk, in order and merged as far as possible. It ends after the
/// first error.
#[derive(Debug)]
pub struct Map {
    node: Arc<Node>,
    at: u64,
    pending: Option<MapEntry>,
}

/// The largest number of pieces to merge into one entry: 8 TiB of a plain disk at QEMU's default
/// cluster size. Tables can map a huge disk to the same few clusters. With this limit an entry is
/// returned within a second, and the caller can stop.
const MERGE_MAX: u32 = 1 << 14;

impl Map {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self::from(node, 0)
    }

    /// Returns the runs from byte `at` of the disk on.
    pub(crate) const fn from(node: Arc<Node>, at: u64) -> Self {
        Self {
            node,
            at,
            pending: None,
        }
    }

    fn next_unmerged(&mut self) -> Result<Option<MapEntry>> {
        if let Some(entry) = self.pending.take() {
            return Ok(Some(entry));
        }
        let left = self.node.size_bytes().saturating_sub(self.at);
        if left == 0 {
            return Ok(None);
        }
        let start = self.at;
        let status = self.node.status_at(start, left)?;
        self.at = self.at.saturating_add(status.len_bytes);
        Ok(Some(MapEntry::new(start, status)))
    }

    fn next_merged(&mut self) -> Result<Option<MapEntry>> {
        let Some(mut entry) = self.next_unmerged()? else {
            return Ok(None);
        };
        for _ in 0..MERGE_MAX {
            let Some(next) = self.next_unmerged()? else {
                break;
            };
            if !entry.goes_on_with(&next) {
                self.pending = Some(next);
                break;
            }
            entry.len_bytes = entry.len_bytes.saturating_add(next.len_bytes);
        }
        Ok(Some(entry))
    }
}

impl Iterator for Map {
    type Item = Result<MapEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_merged();
        if next.is_err() {
            self.at = u64::MAX;
            self.pending = None;
        }
        next.transpose()
    }
}

impl MapEntry {
    const fn new(start: u64, status: Status) -> Self {
        Self {
            start,
            len_bytes: status.len_bytes,
            depth: status.depth,
            present: status.present,
            zero: status.zero,
            data: status.data,
            compressed: status.compressed,
            host_offset: status.host_offset,
        }
    }

    /// Returns true if `next`, which begins where this run ends, is of the same kind and stored
    /// contiguously.
    fn goes_on_with(&self, next: &Self) -> bool {
        let continued = Self {
            start: next.start,
            len_bytes: next.len_bytes,
            host_offset: self.host_offset.map(|at| at.saturating_add(self.len_bytes)),
            ..*self
        };
        continued == *next
    }
}
