//! The search for free blocks while the filesystem is not open.

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{Bits, Geometry};
use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::resize::edits::Edits;
use crate::superblock::Superblock;

use super::bitmaps;

/// The maximum number of free runs that are kept: the longest ones.
const RUNS_MAX: usize = 1 << 14;

/// Free blocks of the new filesystem.
#[derive(Debug)]
pub(super) struct FreeSpace {
    /// The runs as first block and number of blocks, the longest one last. All are whole clusters.
    runs: Vec<(FsBlock, u64)>,
    cluster_bits: u32,
}

impl FreeSpace {
    /// Finds the free blocks of the new filesystem.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(super) fn find(edits: &Edits<'_>, zone: &SystemZone, new: &Superblock) -> Result<Self> {
        let geometry = Geometry::new(new);
        let mut space = Self {
            runs: Vec::new(),
            cluster_bits: new.cluster_ratio_bits,
        };
        for group in 0..new.groups_count {
            if edits.descriptor(group)?.free_clusters == 0 {
                continue;
            }
            let bitmap = bitmaps::read(edits, zone, group)?;
            let bits = Bits::new(&bitmap, None, geometry.clusters_in(group));
            let mut at = 0;
            while let Some(start) = bits.next_clear(at) {
                let end = bits.next_set(start, geometry.clusters_in(group));
                let len = u64::from(end.saturating_sub(start)).wrapping_shl(space.cluster_bits);
                space.runs.push((geometry.block_of(group, start), len));
                at = end;
            }
            if space.runs.len() > RUNS_MAX.saturating_mul(2) {
                space.keep_longest();
            }
        }
        space.keep_longest();
        Ok(space)
    }

    fn keep_longest(&mut self) {
        self.runs.sort_unstable_by_key(|(_, len)| *len);
        let excess = self.runs.len().saturating_sub(RUNS_MAX);
        self.runs.drain(..excess);
    }

    /// Takes a run of at most `blocks_max` blocks, in whole clusters: the shortest that is long
    /// enough, or the longest.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(super) fn take(&mut self, blocks_max: u64) -> Result<(FsBlock, u64)> {
        let cluster = 1u64.wrapping_shl(self.cluster_bits);
        let wanted = blocks_max.next_multiple_of(cluster).max(cluster);
        let enough = self.runs.partition_point(|(_, len)| *len < wanted);
        let nth = enough.min(self.runs.len().saturating_sub(1));
        let Some((first, len)) = (nth < self.runs.len()).then(|| self.runs.remove(nth)) else {
            let reason = "no space left for the journal in the shrunk filesystem, or only in too \
                          many pieces";
            return Err(Error::new(ErrorKind::NoSpace, reason));
        };
        let taken = len.min(wanted);
        if len > taken {
            let rest = (first.after(taken), len.saturating_sub(taken));
            let at = self.runs.partition_point(|(_, len)| *len < rest.1);
            self.runs.insert(at, rest);
        }
        Ok((first, taken.min(blocks_max)))
    }
}
