//! The allocator: which blocks and inodes are in use, and which to allocate next.
//!
//! Each block group has a lock. A [`Summary`] can be read without it, so that a search skips groups
//! with too little free space. A group's descriptor is kept in memory; the handle that changes it
//! also changes the block that holds it. Bitmaps are in the pool like all other metadata.

pub(crate) mod bits;
pub(crate) mod block_bitmap;
mod blocks;
mod claim;
mod counters;
mod free_ranges;
pub(crate) mod geometry;
mod goal;
mod group;
mod inode_bitmap;
mod inodes;
mod spread;
pub(crate) mod system_zone;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::{Error, ErrorKind, Result, Structure, malformed};
use crate::group_descriptor::{self, GroupDescriptor};
use crate::options::RootReserve;
use crate::run::Run;
use crate::statistics::{kernel_reserved_blocks, reserved_blocks};
use crate::superblock::Superblock;
use crate::transaction::TransactionHandle;
use crate::volume::Volume;

use counters::Counters;
use group::{Group, Summary};
use system_zone::SystemZone;

pub(crate) use bits::{Bits, Run as BitRun, clear as clear_bits, set as set_bits};
pub(crate) use block_bitmap::{
    checksum as bitmap_checksum, has_flags, set_padding, stored as bitmap_checksum_mask,
};
pub(crate) use blocks::{Allocated, Request, Reserve};
pub(crate) use counters::Totals;
pub(crate) use free_ranges::free_ranges;
pub(crate) use geometry::Geometry;

/// The maximum number of block groups of a filesystem that is opened for writing: 256 TiB with
/// blocks of 4 KiB, 16 TiB with blocks of 1 KiB. Each group takes some 100 bytes of memory.
pub(crate) const GROUPS_MAX: u32 = 1 << 21;

/// The allocation state of all block groups.
#[derive(Debug)]
pub(crate) struct Allocator {
    geometry: Geometry,
    /// The part in which blocks and inodes may be allocated: all of it, unless the filesystem is
    /// being shrunk.
    allocatable: Geometry,
    system_zone: SystemZone,
    groups: Box<[Mutex<Group>]>,
    summaries: Box<[Summary]>,
    counters: Counters,
    /// The number of clusters that [`Reserve::Keep`] leaves free.
    reserve_clusters: u64,
    /// True if clusters may be preallocated in memory for growing files.
    has_preallocated: AtomicBool,
    /// True if all bitmaps have been compared with their descriptors.
    compared: AtomicBool,
}

impl Allocator {
    /// Reads and checks the descriptors of all groups. `journal` gives the runs of the journal's
    /// inode.
    ///
    /// # Errors
    /// `Corrupt`, `Io`; `Unsupported` if there are too many groups.
    pub(crate) fn open(
        volume: &Volume,
        root_reserve: RootReserve,
        journal: impl Iterator<Item = Result<Run>>,
    ) -> Result<Self> {
        let superblock = &volume.superblock;
        if superblock.groups_count > GROUPS_MAX {
            let reason = format!(
                "too many block groups for writing: {}",
                superblock.groups_count
            );
            let hint = format!(
                "at most {GROUPS_MAX} are supported for writing; the filesystem can be read"
            );
            return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
        }
        let mut groups = Vec::with_capacity(index(superblock.groups_count));
        let mut summaries = Vec::with_capacity(index(superblock.groups_count));
        let mut system_zone = SystemZone::default();
        let counters = Counters::default();
        let geometry = Geometry::new(superblock);
        for group in 0..superblock.groups_count {
            let descriptor = GroupDescriptor::read(volume, group)?;
            check(superblock, &geometry, group, &descriptor)?;
            system_zone.add_group(superblock, group, &descriptor);
            counters.add(
                descriptor.free_clusters,
                descriptor.free_inodes,
                descriptor.used_directories,
            );
            summaries.push(Summary::new(&descriptor));
            groups.push(Mutex::new(Group::new(descriptor)));
        }
        system_zone.add_journal(journal)?;
        system_zone.sort();
        let kept = match root_reserve {
            RootReserve::Keep => reserved_blocks(superblock),
            RootReserve::Use => kernel_reserved_blocks(superblock),
            RootReserve::UseAll => 0,
        };
        Ok(Self {
            reserve_clusters: kept.wrapping_shr(geometry.cluster_bits),
            geometry,
            allocatable: geometry,
            system_zone,
            groups: groups.into(),
            summaries: summaries.into(),
            counters,
            has_preallocated: AtomicBool::new(false),
            compared: AtomicBool::new(false),
        })
    }

    /// Limits allocations to a smaller filesystem, whose groups are the first of this one. No block
    /// is kept in reserve.
    pub(crate) fn limit_to(&mut self, smaller: &Superblock) {
        self.allocatable = Geometry::new(smaller);
        self.reserve_clusters = 0;
    }

    /// Returns the end of the blocks that may be allocated.
    pub(crate) const fn allocatable_end(&self) -> FsBlock {
        self.allocatable.end()
    }

    /// Returns the current totals of free blocks and inodes.
    pub(crate) fn totals(&self) -> Totals {
        self.counters.totals(self.geometry.cluster_bits)
    }

    /// Returns the error for a full filesystem. Before the first such error, all bitmaps are
    /// compared with the counts of their descriptors: a count that is too low looks like a full
    /// filesystem.
    fn full(&self, volume: &Volume, reason: &'static str) -> Error {
        if !self.compared.swap(true, Ordering::SeqCst)
            && let Err(error) = self.compare_bitmaps(volume)
        {
            return error;
        }
        Error::new(ErrorKind::NoSpace, reason)
    }

    fn compare_bitmaps(&self, volume: &Volume) -> Result<()> {
        for number in 0..self.geometry.groups {
            if let Some(group) = self.group(number) {
                self.block_bitmap(volume, number, &group.descriptor)?;
                self.inode_bitmap(volume, number, &group.descriptor)?;
            }
        }
        Ok(())
    }

    fn group(&self, group: u32) -> Option<MutexGuard<'_, Group>> {
        let group = self.groups.get(index(group))?;
        // A poisoned lock is safe to use: a group changes only at the end of an operation, with one
        // assignment for each field that others read. A panic halfway leaves at worst a
        // contradiction that the next check finds.
        Some(group.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn summary(&self, group: u32) -> Option<&Summary> {
        self.summaries.get(index(group))
    }

    /// Stores `descriptor` as the group's, in memory and in its block.
    fn store(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
        descriptor: GroupDescriptor,
    ) -> Result<()> {
        let superblock = &handle.volume().superblock;
        let (key, offset) = group_descriptor::key_of(superblock, number);
        let size = usize::from(superblock.descriptor_size);
        handle.change(key, |block| {
            let end = offset.saturating_add(size);
            let bytes = block.get_mut(offset..end).unwrap_or_default();
            descriptor.encode(superblock, number, bytes)
        })??;
        group.descriptor = descriptor;
        if let Some(summary) = self.summary(number) {
            summary.update(&descriptor);
        }
        Ok(())
    }
}

/// Checks the bounds that [`GroupDescriptor`] does not check because a reader does not need them.
fn check(
    superblock: &Superblock,
    geometry: &Geometry,
    group: u32,
    descriptor: &GroupDescriptor,
) -> Result<()> {
    let structure = Structure::GroupDescriptor(group);
    superblock.check_blocks(structure, descriptor.block_bitmap, 1)?;
    superblock.check_blocks(structure, descriptor.inode_bitmap, 1)?;
    let inodes = geometry.inodes_per_group;
    let counts = [
        (descriptor.free_clusters, geometry.clusters_in(group)),
        (descriptor.free_inodes, inodes),
        (descriptor.used_directories, inodes),
        (descriptor.unused_inodes, inodes),
    ];
    if counts.iter().all(|(count, max)| count <= max) {
        return Ok(());
    }
    Err(malformed(
        structure,
        "its counts exceed the size of the group",
    ))
}
