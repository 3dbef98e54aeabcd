//! Group descriptors: their checksums and flags, and the places of the metadata of block groups.

use super::finding::{FindingKind, FindingPlace};
use super::report::Findings;
use crate::allocator::{Geometry, has_flags};
use crate::block::FsBlock;
use crate::bytes::part;
use crate::error::Result;
use crate::features::Incompatible;
use crate::group_descriptor::{GroupDescriptor, GroupFlags, key_of, verify};
use crate::statistics::blocks_at_start;
use crate::superblock::superblock_block;
use crate::volume::Volume;

/// A block group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) descriptor: GroupDescriptor,
    /// True if both bitmaps are within the filesystem.
    pub(super) has_bitmaps: bool,
    /// True if the inode table is within the filesystem.
    pub(super) has_table: bool,
}

impl Group {
    /// Returns the number of inodes at the start of the table that can be in use.
    pub(super) fn inodes_to_scan(&self, volume: &Volume) -> u32 {
        let all = volume.superblock.inodes_per_group;
        if !self.has_table {
            return 0;
        }
        if !has_flags(&volume.superblock) {
            return all;
        }
        if self.descriptor.flags.contains(GroupFlags::INODE_UNINIT) {
            return 0;
        }
        all.saturating_sub(self.descriptor.unused_inodes)
    }

    /// Returns true if the block bitmap is not on the device.
    pub(super) fn is_block_uninit(&self, volume: &Volume) -> bool {
        has_flags(&volume.superblock) && self.descriptor.flags.contains(GroupFlags::BLOCK_UNINIT)
    }

    /// Returns true if the inode bitmap is not on the device.
    pub(super) fn is_inode_uninit(&self, volume: &Volume) -> bool {
        has_flags(&volume.superblock) && self.descriptor.flags.contains(GroupFlags::INODE_UNINIT)
    }
}

/// A range of blocks with metadata at a fixed place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MetadataRange {
    pub(super) first: u64,
    pub(super) len_blocks: u64,
    /// The group that the metadata belongs to.
    pub(super) group: u32,
}

/// Reads and checks all descriptors.
pub(super) fn read(volume: &Volume, findings: &Findings) -> Result<Vec<Group>> {
    let geometry = Geometry::new(&volume.superblock);
    (0..volume.superblock.groups_count)
        .map(|group| read_one(volume, &geometry, findings, group))
        .collect()
}

fn read_one(
    volume: &Volume,
    geometry: &Geometry,
    findings: &Findings,
    group: u32,
) -> Result<Group> {
    let superblock = &volume.superblock;
    let (key, offset) = key_of(superblock, group);
    let block = volume.block(key)?;
    let bytes = part(&block, offset, usize::from(superblock.descriptor_size)).unwrap_or_default();
    let descriptor = GroupDescriptor::decode(superblock, group, bytes)?;
    if let Err(e) = verify(superblock, group, bytes) {
        let place = FindingPlace::group(group).with_block(key.block.0);
        findings.add(FindingKind::GroupChecksum, place, e.to_string());
    }
    check_flags(volume, findings, group, &descriptor);
    let located = |(what, first), len_blocks| {
        check_place(volume, geometry, findings, group, (what, first, len_blocks))
    };
    let has_block_bitmap = located(("block bitmap", descriptor.block_bitmap), 1);
    let has_inode_bitmap = located(("inode bitmap", descriptor.inode_bitmap), 1);
    let table_blocks = u64::from(superblock.inode_table_blocks());
    let has_table = located(("inode table", descriptor.inode_table), table_blocks);
    Ok(Group {
        descriptor,
        has_bitmaps: has_block_bitmap && has_inode_bitmap,
        has_table,
    })
}

fn check_flags(volume: &Volume, findings: &Findings, group: u32, descriptor: &GroupDescriptor) {
    let superblock = &volume.superblock;
    let uninit = GroupFlags::INODE_UNINIT | GroupFlags::BLOCK_UNINIT;
    let found = |detail: String| {
        findings.add(FindingKind::GroupFlags, FindingPlace::group(group), detail);
    };
    let unused = descriptor.unused_inodes;
    if !has_flags(superblock) {
        if descriptor.flags.intersects(uninit) || unused != 0 {
            found(format!(
                "the flags are {:#x} and the count of unused inodes is {unused}, expected 0 \
                 without descriptor checksums",
                descriptor.flags.bits()
            ));
        }
        return;
    }
    let free = descriptor.free_inodes;
    if unused > superblock.inodes_per_group || unused > free {
        found(format!(
            "the count of unused inodes is {unused}, expected at most the {free} free inodes"
        ));
    }
    let last = superblock.groups_count.saturating_sub(1);
    if group == last && descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) {
        found("the block bitmap of the last group is marked as uninitialized".into());
    }
}

/// Checks the place of a bitmap or of an inode table. Returns true if it is within the filesystem.
fn check_place(
    volume: &Volume,
    geometry: &Geometry,
    findings: &Findings,
    group: u32,
    (what, first, len_blocks): (&str, FsBlock, u64),
) -> bool {
    let superblock = &volume.superblock;
    let start = if superblock.features.has(Incompatible::FLEX_BG) {
        u64::from(superblock.first_data_block)
    } else {
        geometry.first_block(group).0
    };
    let end = if superblock.features.has(Incompatible::FLEX_BG) {
        superblock.blocks_count
    } else {
        geometry
            .first_block(group)
            .0
            .saturating_add(geometry.blocks_in(group))
    };
    if first.0 < start || first.after(len_blocks).0 > end {
        let place = FindingPlace::group(group).with_block(first.0);
        let detail =
            format!("the {what} is at block {first}, expected {start} or later, ending by {end}");
        findings.add(FindingKind::GroupLocation, place, detail);
    }
    superblock.holds(first, len_blocks)
}

/// Returns the ranges of all metadata at fixed places.
pub(super) fn metadata<'a>(
    volume: &'a Volume,
    groups: &'a [Group],
) -> impl Iterator<Item = MetadataRange> + 'a {
    (0u32..)
        .zip(groups)
        .flat_map(|(group, found)| metadata_of(volume, group, found))
}

/// Returns the ranges of a group's metadata that are within the filesystem.
fn metadata_of(volume: &Volume, group: u32, found: &Group) -> Vec<MetadataRange> {
    let superblock = &volume.superblock;
    let descriptor = &found.descriptor;
    let at_start = blocks_at_start(superblock, group);
    let first_data_block = u64::from(superblock.first_data_block);
    let (start, len) = if group == 0 {
        // With bigalloc and blocks of 1 KiB the superblock is not the group's first block.
        let end = superblock_block(superblock.block_size).after(at_start).0;
        (first_data_block, end.saturating_sub(first_data_block))
    } else {
        (superblock.first_block_of_group(group).0, at_start)
    };
    let table_blocks = u64::from(superblock.inode_table_blocks());
    let ranges = [
        (start, len),
        (descriptor.block_bitmap.0, 1),
        (descriptor.inode_bitmap.0, 1),
        (descriptor.inode_table.0, table_blocks),
    ];
    let inside = |(first, len_blocks): (u64, u64)| {
        let end = first.saturating_add(len_blocks);
        let valid = len_blocks > 0 && first >= first_data_block && end <= superblock.blocks_count;
        valid.then_some(MetadataRange {
            first,
            len_blocks,
            group,
        })
    };
    ranges.into_iter().filter_map(inside).collect()
}

/// Reports metadata that overlaps.
pub(super) fn check_overlaps(findings: &Findings, ranges: &mut [MetadataRange]) {
    ranges.sort_unstable();
    let mut last: Option<MetadataRange> = None;
    for &range in ranges.iter() {
        let end = |range: &MetadataRange| range.first.saturating_add(range.len_blocks);
        if let Some(before) = last
            && end(&before) > range.first
        {
            let place = FindingPlace::group(range.group).with_block(range.first);
            let detail = format!(
                "the metadata at block {} overlaps metadata of block group {}",
                range.first, before.group
            );
            findings.add(FindingKind::MetadataOverlap, place, detail);
        }
        if last.is_none_or(|before| end(&before) < end(&range)) {
            last = Some(range);
        }
    }
}
