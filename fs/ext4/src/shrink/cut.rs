//! Cutting off the end of a filesystem in which no file uses it: one commit of all blocks that
//! change.

use std::collections::BTreeSet;
use std::sync::Arc;

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{BitRun, Bits, Geometry, clear_bits, set_bits};
use crate::block::FsBlock;
use crate::bytes::{index, split64};
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible};
use crate::group_descriptor::{GroupDescriptor, table_block};
use crate::journal::log_writer::{LogShare, LogWriter};
use crate::resize::commit::Commit;
use crate::resize::edits::Edits;
use crate::resize::{Added, resize_inode};
use crate::statistics::blocks_at_start;
use crate::superblock::{self, RawSuperblock, Superblock};
use crate::volume::Volume;

use super::free_space::FreeSpace;
use super::{bitmaps, record, zones};

/// The end of a filesystem that is cut off.
pub(super) struct Cut<'c> {
    pub(super) device: &'c Arc<dyn BlockWrite>,
    /// The old filesystem.
    pub(super) volume: &'c Volume,
    pub(super) descriptors: &'c [GroupDescriptor],
    pub(super) new: &'c Superblock,
    pub(super) time: Timestamp,
}

/// The totals of the new filesystem.
#[derive(Debug, Default)]
struct Totals {
    free_clusters: u64,
    free_inodes: u32,
    /// The clusters of metadata that are cut off or become free.
    released: u64,
}

impl Cut<'_> {
    /// Commits the change. The backups are not updated.
    ///
    /// # Errors
    /// `NoSpace` if the journal is too small, or without a journal if there is no room for a
    /// record; `Corrupt`, `Io`.
    pub(super) fn run(&self) -> Result<()> {
        let old = &self.volume.superblock;
        let zone = zones::zone(old, self.descriptors);
        let mut edits = Edits::new(self.volume);
        self.move_double_indirect(&mut edits, &zone)?;
        let new_zone = zones::zone(self.new, self.descriptors);
        for group in self.changed_groups() {
            self.free_metadata(&mut edits, (&zone, &new_zone), group)?;
        }
        resize_inode::update(self.new, &mut edits, &mut Added::default())?;
        self.clear_descriptors(&mut edits)?;
        let mut totals = totals(&edits, self.new)?;
        totals.released = zones::clusters(old, &zone, old.blocks_count)
            .saturating_sub(zones::clusters(self.new, &new_zone, self.new.blocks_count));
        let block = superblock::superblock_block(old.block_size);
        edits.change(block, |bytes| {
            superblock::change(old, bytes, |raw| self.change_superblock(raw, &totals))
        })??;
        let writer = DeviceWriter::new(Arc::clone(self.device), old.block_size);
        let commit = Commit::open(self.device, old)?;
        let record = match &commit {
            Commit::Journal(log) => {
                check_fits(log, edits.len())?;
                None
            }
            Commit::Record => Some(record::place(&edits, self.new, &zone)?),
        };
        let (changed, _) = edits.split(FsBlock(self.new.blocks_count));
        commit.run(&writer, self.new, &changed, record)
    }

    /// Moves the double indirect block of the resize inode, if it would be cut off.
    fn move_double_indirect(&self, edits: &mut Edits<'_>, zone: &SystemZone) -> Result<()> {
        let Some(from) = resize_inode::double_indirect(edits)? else {
            return Ok(());
        };
        if from.0 < self.new.blocks_count {
            return Ok(());
        }
        let (to, _) = FreeSpace::find(edits, zone, self.new)?.take(1)?;
        resize_inode::move_double_indirect(edits, to)?;
        bitmaps::change_run(edits, zone, (to, 1), set_bits)
    }

    /// Returns the groups whose bitmaps change: the last one, those that hold metadata of removed
    /// groups, and those with fewer blocks of the descriptor table.
    fn changed_groups(&self) -> BTreeSet<u32> {
        let (old, new) = (&self.volume.superblock, self.new);
        let geometry = Geometry::new(new);
        let mut groups = BTreeSet::from([new.groups_count.saturating_sub(1)]);
        let differs = |group: &u32| blocks_at_start(old, *group) != blocks_at_start(new, *group);
        groups.extend((0..new.groups_count).filter(differs));
        let table_blocks = u64::from(old.inode_table_blocks());
        let removed = self.descriptors.iter().skip(index(new.groups_count));
        for descriptor in removed {
            let last = descriptor.inode_table.after(table_blocks.saturating_sub(1));
            let blocks = [
                descriptor.block_bitmap,
                descriptor.inode_bitmap,
                descriptor.inode_table,
                last,
            ];
            let places = blocks.map(|block| geometry.place(block));
            groups.extend(places.into_iter().flatten().map(|(group, _)| group));
        }
        groups
    }

    /// Frees the metadata of a group that the new filesystem does not have.
    fn free_metadata(
        &self,
        edits: &mut Edits<'_>,
        (zone, new_zone): (&SystemZone, &SystemZone),
        group: u32,
    ) -> Result<()> {
        let before = zones::bitmap(&Geometry::new(&self.volume.superblock), zone, group);
        let after = zones::bitmap(&Geometry::new(self.new), new_zone, group);
        bitmaps::change(edits, self.new, zone, group, |bitmap| {
            for ((byte, before), after) in bitmap.iter_mut().zip(before).zip(after) {
                *byte &= !(before & !after);
            }
        })
    }

    /// Zeroes the removed descriptors in the last block of the table.
    fn clear_descriptors(&self, edits: &mut Edits<'_>) -> Result<()> {
        let last = self.new.groups_count.saturating_sub(1);
        let (nth, position) = self.new.descriptor_place(last);
        let size = usize::from(self.new.descriptor_size);
        let end = index(position).saturating_add(1).saturating_mul(size);
        edits.change(table_block(self.new, nth), |bytes| {
            bytes.get_mut(end..).unwrap_or_default().fill(0);
        })
    }

    fn change_superblock(&self, raw: &mut RawSuperblock, totals: &Totals) {
        let new = self.new;
        let (high, low) = split64(new.blocks_count);
        raw.s_blocks_count_lo.set(low);
        raw.s_blocks_count_hi.set(high);
        let (high, low) = split64(new.reserved_blocks_count);
        raw.s_r_blocks_count_lo.set(low);
        raw.s_r_blocks_count_hi.set(high);
        let free_blocks = totals.free_clusters.wrapping_shl(new.cluster_ratio_bits);
        let (high, low) = split64(free_blocks);
        raw.s_free_blocks_count_lo.set(low);
        raw.s_free_blocks_count_hi.set(high);
        raw.s_inodes_count.set(new.inodes_count);
        raw.s_free_inodes_count.set(totals.free_inodes);
        raw.s_reserved_gdt_blocks.set(new.reserved_gdt_blocks);
        raw.s_first_meta_bg.set(new.first_meta_bg);
        let released = u32::try_from(totals.released).unwrap_or(u32::MAX);
        let overhead = raw.s_overhead_clusters.get().saturating_sub(released);
        raw.s_overhead_clusters.set(overhead);
        if new.features.has(Compatible::SPARSE_SUPER2) {
            for (raw, group) in raw.s_backup_bgs.iter_mut().zip(new.backup_groups) {
                raw.set(group);
            }
        }
        if new.features.has(Compatible::HAS_JOURNAL) {
            // Until the journal is empty again.
            let features = raw.s_feature_incompat.get() | Incompatible::NEEDS_RECOVERY.bits();
            raw.s_feature_incompat.set(features);
        }
        let seconds = u64::try_from(self.time.seconds).unwrap_or(0);
        let (high, low) = split64(seconds);
        raw.s_wtime.set(low);
        let [high, ..] = high.to_le_bytes();
        if let Some(byte) = raw.s_time_hi.first_mut() {
            *byte = high;
        }
    }
}

fn totals(edits: &Edits<'_>, new: &Superblock) -> Result<Totals> {
    let mut totals = Totals::default();
    for group in 0..new.groups_count {
        let descriptor = edits.descriptor(group)?;
        let free = u64::from(descriptor.free_clusters);
        totals.free_clusters = totals.free_clusters.saturating_add(free);
        totals.free_inodes = totals.free_inodes.saturating_add(descriptor.free_inodes);
    }
    Ok(totals)
}

/// Returns true if anything after the new filesystem is in use besides metadata at fixed places and
/// the double indirect block of the resize inode.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn is_in_use(edits: &Edits<'_>, new: &Superblock, zone: &SystemZone) -> Result<bool> {
    let old = &edits.volume().superblock;
    let geometry = Geometry::new(old);
    let kept = Geometry::new(new);
    let double_indirect = resize_inode::double_indirect(edits)?;
    let movable = double_indirect.and_then(|block| geometry.place(block));
    for group in new.groups_count.saturating_sub(1)..old.groups_count {
        let mut bitmap = bitmaps::read(edits, zone, group)?;
        for (byte, own) in bitmap.iter_mut().zip(zones::bitmap(&geometry, zone, group)) {
            *byte &= !own;
        }
        if let Some((_, start)) = movable.filter(|(in_group, _)| *in_group == group) {
            clear_bits(&mut bitmap, BitRun { start, len: 1 });
        }
        let clusters = geometry.clusters_in(group);
        let from = kept.clusters_in(group);
        if Bits::new(&bitmap, None, clusters).next_set(from, clusters) < clusters {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_fits(log: &LogWriter, blocks: usize) -> Result<()> {
    if blocks <= index(log.blocks_max(LogShare::Whole)) {
        return Ok(());
    }
    let reason =
        format!("the journal is too small for shrinking: {blocks} blocks change at the same time");
    let hint = "on a copy, make it larger with `tune2fs -O ^has_journal`, then `tune2fs -j`";
    Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
}
