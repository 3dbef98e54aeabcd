//! The inodes that are in use, according to the bitmaps.

use std::ops::Range;

use crate::allocator::{Bits, has_flags};
use crate::error::Result;
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::metadata_cache::Key;
use crate::volume::Volume;

/// Calls `found` with the number of each inode in use of these groups.
///
/// # Errors
/// `Corrupt`, `Io`; those of `found`.
pub(super) fn for_each(
    volume: &Volume,
    groups: Range<u32>,
    mut found: impl FnMut(u32) -> Result<()>,
) -> Result<()> {
    let per_group = volume.superblock.inodes_per_group;
    for group in groups {
        let descriptor = GroupDescriptor::read(volume, group)?;
        let flags = has_flags(&volume.superblock);
        if flags && descriptor.flags.contains(GroupFlags::INODE_UNINIT) {
            continue;
        }
        let bitmap = volume.block(Key::inode_bitmap(group, descriptor.inode_bitmap))?;
        let bits = Bits::new(&bitmap, None, per_group);
        let first = group.saturating_mul(per_group).saturating_add(1);
        let mut nth = bits.next_set(0, per_group);
        while nth < per_group {
            found(first.saturating_add(nth))?;
            nth = bits.next_set(nth.saturating_add(1), per_group);
        }
    }
    Ok(())
}
