//! How a disk is stored, run by run.

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
    /// Where it begins in the guest's disk, in bytes.
    pub start: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// How far down the backing chain it was found; 0 is the image itself.
    pub depth: u32,
    /// Allocated in some image of the chain.
    pub present: bool,
    /// Reads as zeroes.
    pub zero: bool,
    /// Backed by clusters; they may be holes of the file below, and then it is `zero`, too.
    pub data: bool,
    /// Stored compressed.
    pub compressed: bool,
    /// Where it is stored, in the file at `depth` (or its external data file).
    pub host_offset: Option<u64>,
}

/// The runs of a disk, in order and as long as they get; ends after the first error.
#[derive(Debug)]
pub struct Map {
    node: Arc<Node>,
    at: u64,
    pending: Option<MapEntry>,
}

/// Pieces that are merged into one entry: 8 TiB of a plain disk at QEMU's default cluster size.
/// Tables can map an endless disk to the same few clusters; this way an entry comes up within a
/// second, and the caller can stop.
const MERGE_MAX: u32 = 1 << 14;

impl Map {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self::from(node, 0)
    }

    /// The runs from byte `at` of the disk on.
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

    /// Whether `next`, which begins where this ends, is of the same kind and in the same place.
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
