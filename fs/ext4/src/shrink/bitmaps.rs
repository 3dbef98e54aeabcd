//! Changes of block bitmaps while the filesystem is not open.

use crate::allocator::block_bitmap::{checksum, has_flags, set_padding, stored, verify};
use crate::allocator::system_zone::SystemZone;
use crate::allocator::{BitRun, Bits, Geometry};
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::resize::edits::Edits;
use crate::superblock::Superblock;

use super::zones;

/// Returns a group's bitmap in the old filesystem, with the changes until now. `zone` is the old
/// filesystem's metadata.
///
/// # Errors
/// `Corrupt` if it differs from its descriptor; `Io`.
pub(super) fn read(edits: &Edits<'_>, zone: &SystemZone, group: u32) -> Result<Vec<u8>> {
    let superblock = &edits.volume().superblock;
    let descriptor = edits.descriptor(group)?;
    let geometry = Geometry::new(superblock);
    let clusters = geometry.clusters_in(group);
    if is_uninitialised(superblock, &descriptor) {
        let mut made = zones::bitmap(&geometry, zone, group);
        set_padding(&mut made, clusters);
        return Ok(made);
    }
    let bitmap = edits.read(descriptor.block_bitmap)?;
    let structure = Structure::BlockBitmap(group);
    let expected = descriptor.block_bitmap_checksum;
    verify(
        superblock,
        structure,
        &bitmap,
        covered(superblock),
        expected,
    )?;
    if Bits::new(&bitmap, None, clusters).count_clear() != descriptor.free_clusters {
        let problem = "its number of free blocks differs from the group descriptor's";
        return Err(malformed(structure, problem));
    }
    Ok(bitmap.to_vec())
}

/// Changes the bitmap of a group, which ends where it ends in `new`, and its descriptor.
///
/// # Errors
/// Fails like [`read`].
pub(super) fn change(
    edits: &mut Edits<'_>,
    new: &Superblock,
    zone: &SystemZone,
    group: u32,
    change: impl FnOnce(&mut [u8]),
) -> Result<()> {
    let mut bitmap = read(edits, zone, group)?;
    change(&mut bitmap);
    let clusters = Geometry::new(new).clusters_in(group);
    set_padding(&mut bitmap, clusters);
    let mut descriptor = edits.descriptor(group)?;
    descriptor.free_clusters = Bits::new(&bitmap, None, clusters).count_clear();
    let sum = checksum(new, &bitmap, covered(new));
    descriptor.block_bitmap_checksum = sum.unwrap_or(0) & stored(new);
    descriptor.flags.remove(GroupFlags::BLOCK_UNINIT);
    edits.put(descriptor.block_bitmap, bitmap);
    edits.change_descriptor(new, group, |bytes| descriptor.encode(new, group, bytes))
}

/// Changes the bits of a run of blocks, in all groups that it touches.
///
/// # Errors
/// Fails like [`read`].
pub(super) fn change_run(
    edits: &mut Edits<'_>,
    zone: &SystemZone,
    (first, len_blocks): (FsBlock, u64),
    apply: fn(&mut [u8], BitRun),
) -> Result<()> {
    let old = edits.volume().superblock.clone();
    let parts = Geometry::new(&old).parts(first, len_blocks);
    for (group, part) in parts.into_iter().flatten() {
        change(edits, &old, zone, group, |bitmap| apply(bitmap, part))?;
    }
    Ok(())
}

fn is_uninitialised(superblock: &Superblock, descriptor: &GroupDescriptor) -> bool {
    descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) && has_flags(superblock)
}

/// Returns the number of bytes of a bitmap that its checksum covers.
fn covered(superblock: &Superblock) -> usize {
    let clusters = Geometry::new(superblock).clusters_per_group();
    index(clusters.wrapping_div(8))
}
