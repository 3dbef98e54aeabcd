//! The free space of the whole filesystem.

use std::ops::Range;

use diskfs_vfs::FreeRanges;

use crate::error::{Error, ErrorKind, Result};
use crate::options::RootReserve;
use crate::superblock::check_writable;
use crate::volume::Volume;

use super::Allocator;
use super::bits::{Bits, Run};
use super::group::Group;

/// Returns the ranges of the device that are free in the block bitmaps, group by group. Each bitmap
/// is read and checked when the iterator reaches it.
///
/// # Errors
/// `Unsupported`, `Corrupt` if the bitmaps may be out of date: after recorded errors, after an
/// unclean unmount without a journal, and while fast commits wait to be replayed.
pub(crate) fn free_ranges(volume: &Volume) -> Result<FreeRanges<'_>> {
    check_writable(&volume.superblock)?;
    if volume.fast_commits.is_some() {
        let reason = "the journal has fast commits, so the block bitmaps are out of date";
        return Err(Error::new(ErrorKind::Unsupported, reason)
            .with_hint("open the filesystem for writing once, which replays the journal"));
    }
    let allocator = Allocator::open(volume, RootReserve::Use, std::iter::empty())?;
    let groups = 0..allocator.geometry.groups;
    let ranges = groups.flat_map(move |group| {
        let (runs, error) = match allocator.free_runs(volume, group) {
            Ok(runs) => (runs, None),
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        runs.into_iter().map(Ok).chain(error)
    });
    Ok(diskfs_vfs::join_ranges(ranges))
}

impl Allocator {
    fn free_runs(&self, volume: &Volume, number: u32) -> Result<Vec<Range<u64>>> {
        let Some(group) = self.group(number) else {
            return Ok(Vec::new());
        };
        let Group { descriptor, .. } = &*group;
        if descriptor.free_clusters == 0 {
            return Ok(Vec::new());
        }
        let bitmap = self.block_bitmap(volume, number, descriptor)?;
        let clusters = self.geometry.clusters_in(number);
        let bits = Bits::new(&bitmap.bytes, None, clusters);
        let runs = std::iter::successors(clear_run(&bits, 0, clusters), |run| {
            clear_run(&bits, run.end(), clusters)
        });
        Ok(runs.map(|run| self.range_of(volume, number, run)).collect())
    }

    /// Returns the bytes of a run of a group's clusters. The last cluster may be shorter.
    fn range_of(&self, volume: &Volume, group: u32, run: Run) -> Range<u64> {
        let block_bits = volume.superblock.block_size.bits();
        let end_of_group = self
            .geometry
            .first_block(group)
            .0
            .saturating_add(self.geometry.blocks_in(group));
        let start = self.geometry.block_of(group, run.start).0;
        let end = self.geometry.block_of(group, run.end()).0;
        let end = end.min(end_of_group).max(start);
        start.wrapping_shl(block_bits)..end.wrapping_shl(block_bits)
    }
}

fn clear_run(bits: &Bits<'_>, from: u32, until: u32) -> Option<Run> {
    let start = bits.next_clear(from)?;
    let end = bits.next_set(start, until);
    Some(Run {
        start,
        len: end.saturating_sub(start),
    })
}
