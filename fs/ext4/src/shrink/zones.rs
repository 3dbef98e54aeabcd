//! The metadata at fixed places, before and after a filesystem is shrunk.

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{Geometry, set_bits};
use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::group_descriptor::GroupDescriptor;
use crate::superblock::Superblock;

/// Returns the metadata of the groups that `superblock` has.
pub(super) fn zone(superblock: &Superblock, descriptors: &[GroupDescriptor]) -> SystemZone {
    let mut zone = SystemZone::default();
    for (group, descriptor) in (0..superblock.groups_count).zip(descriptors) {
        zone.add_group(superblock, group, descriptor);
    }
    zone.sort();
    zone
}

/// Returns the bitmap of the clusters of a group that touch a zone.
pub(super) fn bitmap(geometry: &Geometry, zone: &SystemZone, group: u32) -> Vec<u8> {
    let mut bytes = vec![0; geometry.bitmap_bytes];
    let first = geometry.first_block(group);
    for (first, len_blocks) in zone.within(first, geometry.blocks_in(group)) {
        for (_, run) in geometry.parts(first, len_blocks).into_iter().flatten() {
            set_bits(&mut bytes, run);
        }
    }
    bytes
}

/// Returns the number of clusters of a zone before block `end`.
pub(super) fn clusters(superblock: &Superblock, zone: &SystemZone, end: u64) -> u64 {
    let bits = superblock.cluster_ratio_bits;
    let mut count = 0u64;
    let mut free_from = 0;
    let start = u64::from(superblock.first_data_block);
    for (first, len_blocks) in zone.within(FsBlock(start), end.saturating_sub(start)) {
        let behind = first
            .after(len_blocks.saturating_sub(1))
            .0
            .wrapping_shr(bits);
        let behind = behind.saturating_add(1);
        let first = first.0.wrapping_shr(bits).max(free_from);
        count = count.saturating_add(behind.saturating_sub(first));
        free_from = behind;
    }
    count
}

/// Fails if bitmaps or an inode table of a group that stays are not within the new filesystem.
///
/// # Errors
/// `Unsupported`.
pub(super) fn check_kept(new: &Superblock, descriptors: &[GroupDescriptor]) -> Result<()> {
    let table_blocks = u64::from(new.inode_table_blocks());
    for (group, descriptor) in (0..new.groups_count).zip(descriptors) {
        let end = descriptor.inode_table.after(table_blocks);
        let end = end
            .max(descriptor.block_bitmap.after(1))
            .max(descriptor.inode_bitmap.after(1));
        if end.0 > new.blocks_count {
            let reason = format!(
                "cannot shrink to {} blocks: the bitmaps or the inode table of block group {group} \
                 end at block {end}",
                new.blocks_count
            );
            let hint = "choose a larger size, or use resize2fs on a copy";
            return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
        }
    }
    Ok(())
}
