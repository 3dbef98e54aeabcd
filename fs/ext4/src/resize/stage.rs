//! A stage of growing, which leads from one consistent size to the next one.

use std::sync::Arc;

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::block::FsBlock;
use crate::bytes::split64;
use crate::device_writer::DeviceWriter;
use crate::error::Result;
use crate::features::{Compatible, Incompatible};
use crate::group_descriptor::table_block;
use crate::journal::write_to_final_places;
use crate::superblock::{self, RawSuperblock, Superblock};
use crate::volume::Volume;

use super::backups::{Backups, first_backup};
use super::commit::Commit;
use super::edits::{Blocks, Edits};
use super::new_groups::NewGroups;
use super::old_groups::complete_last;
use super::redo::{Record, no_room};
use super::{Added, NewSpace, resize_inode};

/// A stage of growing.
#[derive(Debug)]
pub(crate) struct Stage<'s> {
    pub(crate) device: &'s Arc<dyn BlockWrite>,
    /// The old filesystem.
    pub(crate) volume: &'s Volume,
    pub(crate) new: &'s Superblock,
    pub(crate) space: NewSpace,
    pub(crate) time: Timestamp,
}

impl Stage<'_> {
    /// Writes everything outside of the old filesystem, commits the change of the old filesystem,
    /// and updates the backups. `progress` gets the number of bytes of the filesystem that are
    /// prepared.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, `NoSpace`; those of `progress`.
    pub(crate) fn run(
        &self,
        commit: Commit,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let device = DeviceWriter::new(Arc::clone(self.device), self.new.block_size);
        let record = match commit {
            Commit::Journal(_) => None,
            Commit::Record => Record::place(&self.volume.superblock, self.new)?,
        };
        if matches!(commit, Commit::Record) && record.is_none() {
            return Err(no_room());
        }
        let changed = self.prepare(&device, progress)?;
        device.flush()?;
        commit.run(&device, self.new, &changed, record)?;
        write_old_backups(&device, self.volume, self.new, self.first_changed())
    }

    /// Returns the first block of the descriptor table that changes.
    fn first_changed(&self) -> u32 {
        let old = &self.volume.superblock;
        old.descriptor_place(old.groups_count.saturating_sub(1)).0
    }

    /// Writes everything outside of the old filesystem. Returns the changes of the old filesystem.
    fn prepare(
        &self,
        device: &DeviceWriter,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Blocks> {
        let old = &self.volume.superblock;
        let mut edits = Edits::new(self.volume);
        let mut added = Added::default();
        self.add_table_blocks(&mut edits);
        complete_last(self.new, &mut edits, &mut added)?;
        let mut groups = NewGroups::new(self.new, device, self.space);
        let mut group = old.groups_count;
        while group < self.new.groups_count {
            group = groups.add(group, &mut edits, &mut added)?;
            let end = self.new.first_block_of_group(group).0;
            let end = end.min(self.new.blocks_count);
            progress(self.new.block_size.bytes_of(end))?;
        }
        groups.finish()?;
        resize_inode::update(self.new, &mut edits, &mut added)?;
        let block = superblock::superblock_block(self.new.block_size);
        edits.change(block, |bytes| {
            superblock::change(self.new, bytes, |raw| self.change_superblock(raw, &added))
        })??;
        let backups = Backups {
            superblock: self.new,
            device,
            from: 0,
            read: |block| edits.read(block),
        };
        backups.write(old.groups_count..self.new.groups_count)?;
        let (changed, outside) = edits.split(FsBlock(old.blocks_count));
        let outside = outside.iter().map(|(block, bytes)| (*block, bytes));
        write_to_final_places(device, outside)?;
        Ok(changed)
    }

    /// Adds the new blocks of the descriptor table. What they contained before has no meaning.
    fn add_table_blocks(&self, edits: &mut Edits<'_>) {
        let last = self.new.groups_count.saturating_sub(1);
        let end = self.new.descriptor_place(last).0;
        for nth in self.first_changed().saturating_add(1)..=end {
            edits.zero(table_block(self.new, nth));
        }
    }

    fn change_superblock(&self, raw: &mut RawSuperblock, added: &Added) {
        let (old, new) = (&self.volume.superblock, self.new);
        let (high, low) = split64(new.blocks_count);
        raw.s_blocks_count_lo.set(low);
        raw.s_blocks_count_hi.set(high);
        let (high, low) = split64(new.reserved_blocks_count);
        raw.s_r_blocks_count_lo.set(low);
        raw.s_r_blocks_count_hi.set(high);
        let free_blocks = superblock::free_blocks(new, raw)
            .saturating_add(added.free.wrapping_shl(new.cluster_ratio_bits));
        let (high, low) = split64(free_blocks);
        raw.s_free_blocks_count_lo.set(low);
        raw.s_free_blocks_count_hi.set(high);
        raw.s_inodes_count.set(new.inodes_count);
        let inodes = new.inodes_count.saturating_sub(old.inodes_count);
        let free_inodes = raw.s_free_inodes_count.get().saturating_add(inodes);
        raw.s_free_inodes_count.set(free_inodes);
        raw.s_reserved_gdt_blocks.set(new.reserved_gdt_blocks);
        raw.s_first_meta_bg.set(new.first_meta_bg);
        let overhead = raw.s_overhead_clusters.get();
        if overhead > 0 {
            let overhead = overhead
                .saturating_add(added.overhead)
                .saturating_sub(added.released);
            raw.s_overhead_clusters.set(overhead);
        }
        for (raw, group) in raw.s_backup_bgs.iter_mut().zip(new.backup_groups) {
            raw.set(group);
        }
        self.change_features(raw);
        let seconds = u64::try_from(self.time.seconds).unwrap_or(0);
        let (high, low) = split64(seconds);
        raw.s_wtime.set(low);
        let [high, ..] = high.to_le_bytes();
        if let Some(byte) = raw.s_time_hi.first_mut() {
            *byte = high;
        }
    }

    fn change_features(&self, raw: &mut RawSuperblock) {
        let features = self.new.features;
        raw.s_feature_compat.set(features.compatible.bits());
        let mut incompatible = features.incompatible;
        if features.has(Compatible::HAS_JOURNAL) {
            // Until the journal is empty again.
            incompatible |= Incompatible::NEEDS_RECOVERY;
        }
        raw.s_feature_incompat.set(incompatible.bits());
    }
}

/// Writes the backups in groups of `volume`, from block `from` of the descriptor table on, after
/// the primary structures are at their final places. The first superblock is the last one that is
/// written.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn write_old_backups(
    device: &DeviceWriter,
    volume: &Volume,
    new: &Superblock,
    from: u32,
) -> Result<()> {
    let backups = Backups {
        superblock: new,
        device,
        from,
        read: |block| volume.read_blocks(block, 1),
    };
    let groups = volume.superblock.groups_count;
    let first = first_backup(new).unwrap_or(groups);
    backups.write(0..first.min(groups))?;
    let after = first.saturating_add(1);
    backups.write(after..groups.max(after))?;
    device.flush()?;
    backups.write(first..groups.min(after))?;
    device.flush()
}
