//! Which blocks and inodes are in use, and which to take next.
//!
//! Each block group has a lock; what is known of a group without it ([`Summary`]) serves to pass by
//! those that have nothing to give. A group's descriptor is in memory, and its block follows within
//! the handle of whoever changes it; bitmaps are in the pool like all other metadata.

mod bits;
mod block_bitmap;
mod blocks;
mod claim;
mod counters;
mod geometry;
mod goal;
mod group;
mod inode_bitmap;
mod inodes;
mod spread;
mod system_zone;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bytes::index;
use crate::error::{Error, ErrorKind, Result, Structure, malformed};
use crate::group_descriptor::{self, GroupDescriptor};
use crate::options::RootReserve;
use crate::run::Run;
use crate::statistics::{kept_blocks, own_blocks};
use crate::superblock::Superblock;
use crate::transaction::TransactionHandle;
use crate::volume::Volume;

use counters::Counters;
use geometry::Geometry;
use group::{Group, Summary};
use system_zone::SystemZone;

pub(crate) use blocks::{Allocated, Request, Reserve};
pub(crate) use counters::Totals;

/// The most block groups that a filesystem which is written may have: 256 TiB in blocks of 4 KiB, 16
/// TiB in blocks of 1 KiB. Each takes some 100 bytes of memory.
const GROUPS_MAX: u32 = 1 << 21;

/// The state of all block groups.
#[derive(Debug)]
pub(crate) struct Allocator {
    geometry: Geometry,
    system_zone: SystemZone,
    groups: Box<[Mutex<Group>]>,
    summaries: Box<[Summary]>,
    counters: Counters,
    /// Clusters that [`Reserve::Keep`] leaves.
    kept_clusters: u64,
    /// Whether something may be kept for files that grow.
    keeps_any: AtomicBool,
    /// Whether all bitmaps were compared with their descriptors.
    compared: AtomicBool,
}

impl Allocator {
    /// Reads and checks the descriptors of all groups. `journal` are the runs of the journal's inode.
    ///
    /// # Errors
    /// `Corrupt`, `Io`; `Unsupported` when there are too many.
    pub(crate) fn open(
        volume: &Volume,
        root_reserve: RootReserve,
        journal: impl Iterator<Item = Result<Run>>,
    ) -> Result<Self> {
        let superblock = &volume.superblock;
        if superblock.groups_count > GROUPS_MAX {
            let reason = format!("has {} block groups", superblock.groups_count);
            let hint = format!("only filesystems of up to {GROUPS_MAX} are written");
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
            system_zone.add_group(volume, group, &descriptor);
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
            RootReserve::Keep => kept_blocks(superblock),
            RootReserve::Use => own_blocks(superblock),
        };
        Ok(Self {
            kept_clusters: kept.wrapping_shr(geometry.cluster_bits),
            geometry,
            system_zone,
            groups: groups.into(),
            summaries: summaries.into(),
            counters,
            keeps_any: AtomicBool::new(false),
            compared: AtomicBool::new(false),
        })
    }

    /// What is free at this moment.
    pub(crate) fn totals(&self) -> Totals {
        self.counters.totals(self.geometry.cluster_bits)
    }

    /// Returns the error for a filesystem that is full. Before the first of them, all bitmaps are compared with what
    /// their descriptors count: a count that is too low looks like a full filesystem.
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
        // It changes only when all is done, in one statement for each field that others look at; a
        // panic halfway leaves at worst what the next check finds.
        Some(group.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn summary(&self, group: u32) -> Option<&Summary> {
        self.summaries.get(index(group))
    }

    /// Makes `descriptor` the group's, in memory and in its block.
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

/// What [`GroupDescriptor`] has not checked yet, as a reader has no use for it.
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
    Err(malformed(structure, "it counts more than the group has"))
}
