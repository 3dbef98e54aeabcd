//! Changes of groups that exist already: the last one becomes complete, and blocks become free.

use crate::allocator::bits::{self, Bits, Run};
use crate::allocator::block_bitmap::{checksum, has_flags, stored, verify};
use crate::allocator::geometry::Geometry;
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::statistics::blocks_at_start;
use crate::superblock::Superblock;

use super::Added;
use super::edits::Edits;

/// Extends the last group of the old filesystem to its size in the new one. If its backups moved to
/// another group, their blocks become free.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn complete_last(
    new: &Superblock,
    edits: &mut Edits<'_>,
    totals: &mut Added,
) -> Result<()> {
    let old = &edits.volume().superblock;
    let group = old.groups_count.saturating_sub(1);
    let before = Geometry::new(old).clusters_in(group);
    let after = Geometry::new(new).clusters_in(group);
    let added = Run {
        start: before,
        len: after.saturating_sub(before),
    };
    let mut freed = vec![added];
    let at_start = blocks_at_start(old, group);
    if at_start > blocks_at_start(new, group) {
        let len = u32::try_from(at_start).unwrap_or(u32::MAX);
        freed.push(Run { start: 0, len });
        totals.released = len;
    }
    let freed = free(new, edits, group, &freed)?;
    totals.free = totals.free.saturating_add(u64::from(freed));
    Ok(())
}

/// Frees a block of the old filesystem with its cluster. Returns the number of clusters that became
/// free.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn free_block(new: &Superblock, edits: &mut Edits<'_>, block: FsBlock) -> Result<u32> {
    let place = Geometry::new(&edits.volume().superblock).place(block);
    let Some((group, start)) = place else {
        return Err(malformed(
            Structure::Superblock,
            "the resize inode refers to a block outside of the filesystem",
        ));
    };
    free(new, edits, group, &[Run { start, len: 1 }])
}

fn free(new: &Superblock, edits: &mut Edits<'_>, group: u32, runs: &[Run]) -> Result<u32> {
    let count = runs.iter().map(|run| run.len).sum();
    if count == 0 {
        return Ok(0);
    }
    let mut descriptor = edits.descriptor(group)?;
    if !(descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) && has_flags(new)) {
        let bitmap = edits.read(descriptor.block_bitmap)?;
        check(new, group, &descriptor, &bitmap)?;
        let clusters = Geometry::new(new).clusters_in(group);
        let checksum = edits.change(descriptor.block_bitmap, |bitmap| {
            for run in runs {
                bits::clear(bitmap, *run);
            }
            let free = Bits::new(bitmap, None, clusters).count_clear();
            let expected = descriptor.free_clusters.saturating_add(count);
            (free == expected).then(|| checksum(new, bitmap, covered(new)))
        })?;
        let Some(checksum) = checksum else {
            let problem = "it marks blocks that hold metadata, or are after its end, as free";
            return Err(malformed(Structure::BlockBitmap(group), problem));
        };
        descriptor.block_bitmap_checksum = checksum.unwrap_or(0) & stored(new);
    }
    descriptor.free_clusters = descriptor.free_clusters.saturating_add(count);
    edits.change_descriptor(new, group, |bytes| descriptor.encode(new, group, bytes))?;
    Ok(count)
}

/// Compares a bitmap with its descriptor. In the old filesystem all bits after its end are set, so
/// the bits up to the end of the new one have the same number of free blocks.
fn check(
    superblock: &Superblock,
    group: u32,
    descriptor: &GroupDescriptor,
    bitmap: &[u8],
) -> Result<()> {
    let structure = Structure::BlockBitmap(group);
    let stored = descriptor.block_bitmap_checksum;
    verify(superblock, structure, bitmap, covered(superblock), stored)?;
    let clusters = Geometry::new(superblock).clusters_in(group);
    if Bits::new(bitmap, None, clusters).count_clear() == descriptor.free_clusters {
        return Ok(());
    }
    let problem = "its number of free blocks differs from the group descriptor's";
    Err(malformed(structure, problem))
}

/// Returns the number of bytes of a bitmap that its checksum covers.
fn covered(superblock: &Superblock) -> usize {
    index(
        Geometry::new(superblock)
            .clusters_per_group()
            .wrapping_div(8),
    )
}
