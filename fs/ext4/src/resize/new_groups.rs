//! New groups: their bitmaps, inode tables and descriptors.

use std::sync::Arc;

use crate::allocator::bits::{self, Bits};
use crate::allocator::block_bitmap::{checksum, has_flags, set_padding, stored};
use crate::allocator::geometry::Geometry;
use crate::allocator::system_zone::SystemZone;
use crate::block::FsBlock;
use crate::bytes::index;
use crate::device_writer::DeviceWriter;
use crate::error::Result;
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::journal::write_to_final_places;
use crate::superblock::Superblock;

use super::edits::{Blocks, Edits};
use super::placement::{end_of_flex, place};
use super::{Added, NewSpace};

/// The number of bytes of bitmaps that are written at once.
const BATCH_BYTES: usize = 4 << 20;

/// A writer of new groups. Their bitmaps and inode tables are in new blocks and are written at
/// once; their descriptors are added to the changes.
#[derive(Debug)]
pub(super) struct NewGroups<'n> {
    superblock: &'n Superblock,
    geometry: Geometry,
    device: &'n DeviceWriter,
    space: NewSpace,
    bitmaps: Blocks,
    /// The adjacent inode tables that are to be zeroed.
    tables: (FsBlock, u64),
}

impl<'n> NewGroups<'n> {
    /// Returns a writer of groups of the new filesystem.
    pub(super) fn new(
        superblock: &'n Superblock,
        device: &'n DeviceWriter,
        space: NewSpace,
    ) -> Self {
        Self {
            superblock,
            geometry: Geometry::new(superblock),
            device,
            space,
            bitmaps: Blocks::new(),
            tables: (FsBlock(0), 0),
        }
    }

    /// Writes the groups from `first` up to the end of its flexible group. Returns that end.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn add(
        &mut self,
        first: u32,
        edits: &mut Edits<'_>,
        added: &mut Added,
    ) -> Result<u32> {
        let end = end_of_flex(self.superblock, first);
        let descriptors = place(self.superblock, first..end)?;
        let mut zone = SystemZone::default();
        for (group, descriptor) in (first..end).zip(&descriptors) {
            zone.add_group(self.superblock, group, descriptor);
        }
        zone.sort();
        for (group, mut descriptor) in (first..end).zip(descriptors) {
            self.fill(group, &zone, &mut descriptor);
            self.zero_table(&descriptor)?;
            added.free = added
                .free
                .saturating_add(u64::from(descriptor.free_clusters));
            let used = self.geometry.clusters_in(group);
            let used = used.saturating_sub(descriptor.free_clusters);
            added.overhead = added.overhead.saturating_add(used);
            edits.change_descriptor(self.superblock, group, |bytes| {
                descriptor.encode_new(self.superblock, group, bytes)
            })?;
            if self
                .bitmaps
                .len()
                .saturating_mul(self.geometry.bitmap_bytes)
                >= BATCH_BYTES
            {
                self.write_bitmaps()?;
            }
        }
        Ok(end)
    }

    /// Writes everything that is not written yet.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write_bitmaps()?;
        self.write_tables()
    }

    /// Completes a descriptor, and keeps the bitmaps that must be written.
    fn fill(&mut self, group: u32, zone: &SystemZone, descriptor: &mut GroupDescriptor) {
        let clusters = self.geometry.clusters_in(group);
        let bitmap = self.block_bitmap(group, zone);
        descriptor.free_clusters = Bits::new(&bitmap, None, clusters).count_clear();
        let last = group.saturating_add(1) == self.superblock.groups_count;
        if has_flags(self.superblock) {
            descriptor.flags |= GroupFlags::INODE_UNINIT;
            descriptor.unused_inodes = self.superblock.inodes_per_group;
            if self.space == NewSpace::Zeroes {
                descriptor.flags |= GroupFlags::INODE_ZEROED;
            }
            let mut own = SystemZone::default();
            own.add_group(self.superblock, group, descriptor);
            own.sort();
            // The bitmap of the last group is stored, as mke2fs does: its end may change.
            if !last && bitmap == self.block_bitmap(group, &own) {
                descriptor.flags |= GroupFlags::BLOCK_UNINIT;
                return;
            }
        } else {
            let mut inodes = vec![0; self.geometry.bitmap_bytes];
            set_padding(&mut inodes, self.superblock.inodes_per_group);
            self.bitmaps
                .insert(descriptor.inode_bitmap, Arc::from(inodes));
        }
        let covered = index(self.geometry.clusters_per_group().wrapping_div(8));
        let checksum = checksum(self.superblock, &bitmap, covered);
        descriptor.block_bitmap_checksum = checksum.unwrap_or(0) & stored(self.superblock);
        self.bitmaps
            .insert(descriptor.block_bitmap, Arc::from(bitmap));
    }

    /// Returns the bitmap of a group in which only `zone` is in use.
    fn block_bitmap(&self, group: u32, zone: &SystemZone) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.bitmap_bytes];
        let first = self.geometry.first_block(group);
        for (first, len_blocks) in zone.within(first, self.geometry.blocks_in(group)) {
            let parts = self.geometry.parts(first, len_blocks);
            for (_, run) in parts.into_iter().flatten() {
                bits::set(&mut bytes, run);
            }
        }
        set_padding(&mut bytes, self.geometry.clusters_in(group));
        bytes
    }

    /// Zeroes an inode table whose descriptor cannot say that it is uninitialised.
    fn zero_table(&mut self, descriptor: &GroupDescriptor) -> Result<()> {
        if has_flags(self.superblock) || self.space == NewSpace::Zeroes {
            return Ok(());
        }
        let table_blocks = u64::from(self.superblock.inode_table_blocks());
        let (first, len) = self.tables;
        if first.after(len) != descriptor.inode_table {
            self.write_tables()?;
            self.tables = (descriptor.inode_table, 0);
        }
        self.tables.1 = self.tables.1.saturating_add(table_blocks);
        Ok(())
    }

    fn write_tables(&mut self) -> Result<()> {
        let (first, len) = std::mem::replace(&mut self.tables, (FsBlock(0), 0));
        if len == 0 {
            return Ok(());
        }
        let size = self.superblock.block_size;
        self.device.zero(size.byte_of(first), size.bytes_of(len))
    }

    fn write_bitmaps(&mut self) -> Result<()> {
        let bitmaps = std::mem::take(&mut self.bitmaps);
        let blocks = bitmaps.iter().map(|(block, bytes)| (*block, bytes));
        write_to_final_places(self.device, blocks)
    }
}
