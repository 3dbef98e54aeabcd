//! Block group descriptors, `struct ext4_group_desc`, which give the place of each group's inode
//! table.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Block Group
//! Descriptors".

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::FsBlock;
use crate::bytes::{index, join32, join64, low16, part, put, split32, split64};
use crate::checksum::crc16;
use crate::error::{Corrupt, Error, Result, Structure, malformed};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::metadata_cache::Key;
use crate::superblock::{Superblock, superblock_block};
use crate::volume::Volume;

/// The first half, which every descriptor has.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawGroupDescriptor {
    bg_block_bitmap_lo: U32,
    bg_inode_bitmap_lo: U32,
    bg_inode_table_lo: U32,
    bg_free_blocks_count_lo: U16,
    bg_free_inodes_count_lo: U16,
    bg_used_dirs_count_lo: U16,
    bg_flags: U16,
    bg_exclude_bitmap_lo: U32,
    bg_block_bitmap_csum_lo: U16,
    bg_inode_bitmap_csum_lo: U16,
    bg_itable_unused_lo: U16,
    bg_checksum: U16,
}

/// The second half, which exists with the feature `64bit`.
#[derive(Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawGroupDescriptorHigh {
    bg_block_bitmap_hi: U32,
    bg_inode_bitmap_hi: U32,
    bg_inode_table_hi: U32,
    bg_free_blocks_count_hi: U16,
    bg_free_inodes_count_hi: U16,
    bg_used_dirs_count_hi: U16,
    bg_itable_unused_hi: U16,
    bg_exclude_bitmap_hi: U32,
    bg_block_bitmap_csum_hi: U16,
    bg_inode_bitmap_csum_hi: U16,
    bg_reserved: U32,
}

const CHECKSUM: usize = std::mem::offset_of!(RawGroupDescriptor, bg_checksum);
const CHECKSUM_END: usize = size_of::<RawGroupDescriptor>();

const _: () = {
    assert!(CHECKSUM == 0x1e && CHECKSUM_END == 0x20);
    assert!(size_of::<RawGroupDescriptorHigh>() == 0x20);
};

bitflags! {
    /// The flags in `bg_flags`. They are valid only with `metadata_csum` or `gdt_csum`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct GroupFlags: u16 {
        /// No inode was ever in use, and the inode bitmap is not on the device.
        const INODE_UNINIT = 0x1;
        /// The block bitmap is not on the device: only metadata at fixed places is in use.
        const BLOCK_UNINIT = 0x2;
        /// The whole inode table was written.
        const INODE_ZEROED = 0x4;
        const _ = !0;
    }
}

/// A checked descriptor, whose block numbers are within the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupDescriptor {
    pub(crate) block_bitmap: FsBlock,
    pub(crate) inode_bitmap: FsBlock,
    pub(crate) inode_table: FsBlock,
    /// The number of free clusters.
    pub(crate) free_clusters: u32,
    pub(crate) free_inodes: u32,
    pub(crate) used_directories: u32,
    pub(crate) flags: GroupFlags,
    /// The number of inodes at the end of the table that were never in use; only with a checksum.
    pub(crate) unused_inodes: u32,
    /// The checksum of the block bitmap, with `metadata_csum`; 16 bits in a descriptor of 32 bytes.
    pub(crate) block_bitmap_checksum: u32,
    /// The checksum of the inode bitmap, with `metadata_csum`; 16 bits in a descriptor of 32 bytes.
    pub(crate) inode_bitmap_checksum: u32,
}

impl GroupDescriptor {
    /// Reads and checks the descriptor of a group.
    pub(crate) fn read(volume: &Volume, group: u32) -> Result<Self> {
        let superblock = &volume.superblock;
        let (key, offset) = key_of(superblock, group);
        let bytes = volume.block(key)?;
        match part(&bytes, offset, usize::from(superblock.descriptor_size)) {
            Some(descriptor) => Self::parse(superblock, group, descriptor),
            None => Err(cut_short(group)),
        }
    }

    /// Writes the fields that can change into a descriptor's bytes: all but the places of the
    /// bitmaps and the inode table.
    ///
    /// # Errors
    /// `Corrupt` if there are too few bytes.
    pub(crate) fn encode(
        &self,
        superblock: &Superblock,
        group: u32,
        bytes: &mut [u8],
    ) -> Result<()> {
        let (raw, rest) =
            RawGroupDescriptor::mut_from_prefix(bytes).map_err(|_| cut_short(group))?;
        let mut none = RawGroupDescriptorHigh::default();
        let high = match RawGroupDescriptorHigh::mut_from_prefix(rest) {
            Ok((high, _)) if superblock.features.has(Incompatible::SIXTY_FOUR_BIT) => high,
            _ => &mut none,
        };
        let set = |high: &mut U16, low: &mut U16, value| {
            let (upper, lower) = split32(value);
            high.set(upper);
            low.set(lower);
        };
        set(
            &mut high.bg_free_blocks_count_hi,
            &mut raw.bg_free_blocks_count_lo,
            self.free_clusters,
        );
        set(
            &mut high.bg_free_inodes_count_hi,
            &mut raw.bg_free_inodes_count_lo,
            self.free_inodes,
        );
        set(
            &mut high.bg_used_dirs_count_hi,
            &mut raw.bg_used_dirs_count_lo,
            self.used_directories,
        );
        set(
            &mut high.bg_itable_unused_hi,
            &mut raw.bg_itable_unused_lo,
            self.unused_inodes,
        );
        set(
            &mut high.bg_block_bitmap_csum_hi,
            &mut raw.bg_block_bitmap_csum_lo,
            self.block_bitmap_checksum,
        );
        set(
            &mut high.bg_inode_bitmap_csum_hi,
            &mut raw.bg_inode_bitmap_csum_lo,
            self.inode_bitmap_checksum,
        );
        raw.bg_flags.set(self.flags.bits());
        store_checksum(superblock, group, bytes);
        Ok(())
    }

    /// Writes all fields of a new group's descriptor.
    ///
    /// # Errors
    /// `Corrupt` if there are too few bytes.
    pub(crate) fn encode_new(
        &self,
        superblock: &Superblock,
        group: u32,
        bytes: &mut [u8],
    ) -> Result<()> {
        bytes.fill(0);
        let (raw, rest) =
            RawGroupDescriptor::mut_from_prefix(bytes).map_err(|_| cut_short(group))?;
        let mut none = RawGroupDescriptorHigh::default();
        let high = match RawGroupDescriptorHigh::mut_from_prefix(rest) {
            Ok((high, _)) if superblock.features.has(Incompatible::SIXTY_FOUR_BIT) => high,
            _ => &mut none,
        };
        let set = |high: &mut U32, low: &mut U32, block: FsBlock| {
            let (upper, lower) = split64(block.0);
            high.set(upper);
            low.set(lower);
        };
        set(
            &mut high.bg_block_bitmap_hi,
            &mut raw.bg_block_bitmap_lo,
            self.block_bitmap,
        );
        set(
            &mut high.bg_inode_bitmap_hi,
            &mut raw.bg_inode_bitmap_lo,
            self.inode_bitmap,
        );
        set(
            &mut high.bg_inode_table_hi,
            &mut raw.bg_inode_table_lo,
            self.inode_table,
        );
        self.encode(superblock, group, bytes)
    }

    /// Parses and checks a descriptor's bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn parse(superblock: &Superblock, group: u32, bytes: &[u8]) -> Result<Self> {
        let structure = Structure::GroupDescriptor(group);
        verify(superblock, group, bytes)?;
        let descriptor = Self::decode(superblock, group, bytes)?;
        let table_blocks = u64::from(superblock.inode_table_blocks());
        superblock.check_blocks(structure, descriptor.inode_table, table_blocks)?;
        Ok(descriptor)
    }

    /// Decodes the fields without checking them.
    ///
    /// # Errors
    /// `Corrupt` if there are too few bytes.
    pub(crate) fn decode(superblock: &Superblock, group: u32, bytes: &[u8]) -> Result<Self> {
        let (raw, rest) =
            RawGroupDescriptor::ref_from_prefix(bytes).map_err(|_| cut_short(group))?;
        let none = RawGroupDescriptorHigh::default();
        let high = match RawGroupDescriptorHigh::ref_from_prefix(rest) {
            Ok((high, _)) if superblock.features.has(Incompatible::SIXTY_FOUR_BIT) => high,
            _ => &none,
        };
        let block = |high: U32, low: U32| FsBlock(join64(high.get(), low.get()));
        let count = |high: U16, low: U16| join32(high.get(), low.get());
        Ok(Self {
            block_bitmap: block(high.bg_block_bitmap_hi, raw.bg_block_bitmap_lo),
            inode_bitmap: block(high.bg_inode_bitmap_hi, raw.bg_inode_bitmap_lo),
            inode_table: block(high.bg_inode_table_hi, raw.bg_inode_table_lo),
            free_clusters: count(high.bg_free_blocks_count_hi, raw.bg_free_blocks_count_lo),
            free_inodes: count(high.bg_free_inodes_count_hi, raw.bg_free_inodes_count_lo),
            used_directories: count(high.bg_used_dirs_count_hi, raw.bg_used_dirs_count_lo),
            flags: GroupFlags::from_bits_retain(raw.bg_flags.get()),
            unused_inodes: count(high.bg_itable_unused_hi, raw.bg_itable_unused_lo),
            block_bitmap_checksum: count(high.bg_block_bitmap_csum_hi, raw.bg_block_bitmap_csum_lo),
            inode_bitmap_checksum: count(high.bg_inode_bitmap_csum_hi, raw.bg_inode_bitmap_csum_lo),
        })
    }
}

fn cut_short(group: u32) -> Error {
    malformed(Structure::GroupDescriptor(group), "truncated")
}

/// Returns the block that contains a group's descriptor, and the byte offset in it.
pub(crate) fn key_of(superblock: &Superblock, group: u32) -> (Key, usize) {
    let (nth, position) = superblock.descriptor_place(group);
    let key = Key::group_descriptors(table_block(superblock, nth));
    let size = usize::from(superblock.descriptor_size);
    (key, index(position).saturating_mul(size))
}

/// Computes `bg_checksum`, or returns `None` if the filesystem has no such checksums.
fn checksum(superblock: &Superblock, group: u32, bytes: &[u8]) -> Option<u16> {
    let number = group.to_le_bytes();
    let before = bytes.get(..CHECKSUM).unwrap_or_default();
    let after = bytes.get(CHECKSUM_END..).unwrap_or_default();
    if let Some(seed) = superblock.checksum_seed {
        return Some(low16(seed.of(&[&number, before, &[0; 2], after])));
    }
    let parts: [&[u8]; 4] = [&superblock.uuid, &number, before, after];
    let crc = || parts.iter().fold(u16::MAX, |crc, part| crc16(crc, part));
    superblock
        .features
        .has(ReadOnlyCompatible::GDT_CSUM)
        .then(crc)
}

fn store_checksum(superblock: &Superblock, group: u32, bytes: &mut [u8]) {
    if let Some(checksum) = checksum(superblock, group, bytes) {
        put(bytes, CHECKSUM, &checksum.to_le_bytes());
    }
}

/// Verifies the checksum in a descriptor's bytes, if the filesystem has such checksums.
///
/// # Errors
/// `Corrupt` if it does not match.
pub(crate) fn verify(superblock: &Superblock, group: u32, bytes: &[u8]) -> Result<()> {
    let (raw, _) = RawGroupDescriptor::ref_from_prefix(bytes).map_err(|_| cut_short(group))?;
    let actual = raw.bg_checksum.get();
    match checksum(superblock, group, bytes) {
        Some(expected) if expected != actual => Err(Corrupt::Checksum {
            structure: Structure::GroupDescriptor(group),
            expected: u32::from(expected),
            actual: u32::from(actual),
        }
        .into()),
        _ => Ok(()),
    }
}

/// Returns the block that holds the `nth` block of the descriptor table. The table follows the
/// superblock, or with `meta_bg` each of its blocks is at the start of the first group that it
/// describes.
pub(crate) fn table_block(superblock: &Superblock, nth: u32) -> FsBlock {
    let primary = superblock_block(superblock.block_size);
    if !superblock.features.has(Incompatible::META_BG) || nth < superblock.first_meta_bg {
        return primary.after(u64::from(nth)).after(1);
    }
    let group = nth.saturating_mul(superblock.descriptors_per_block());
    let mut behind = u64::from(has_superblock(superblock, group));
    // With blocks of 1 KiB the superblock is in block 1, but with bigalloc group 0 begins with
    // block 0, which is before it.
    if superblock.block_size.bytes() == 1024 && nth == 0 && superblock.first_data_block == 0 {
        behind = behind.saturating_add(1);
    }
    superblock.first_block_of_group(group).after(behind)
}

/// Returns true if a group begins with the superblock or a copy of it.
pub(crate) fn has_superblock(superblock: &Superblock, group: u32) -> bool {
    if group == 0 {
        return true;
    }
    if superblock.features.has(Compatible::SPARSE_SUPER2) {
        return superblock.backup_groups.contains(&group);
    }
    !superblock.features.has(ReadOnlyCompatible::SPARSE_SUPER) || is_sparse_backup(group)
}

/// Returns true if `sparse_super` keeps the superblock of a group: 0, 1, and the powers of 3, 5 and
/// 7.
pub(crate) fn is_sparse_backup(group: u32) -> bool {
    group <= 1 || [3, 5, 7].into_iter().any(|base| is_power_of(group, base))
}

fn is_power_of(mut number: u32, base: u32) -> bool {
    while let (Some(0), Some(quotient)) = (number.checked_rem(base), number.checked_div(base))
        && number > 1
    {
        number = quotient;
    }
    number == 1
}

/// Returns the number of blocks of the descriptor table (or of a copy of it) in a group.
pub(crate) fn table_blocks_in_group(superblock: &Superblock, group: u32) -> u64 {
    let per_block = superblock.descriptors_per_block();
    let meta_bg = superblock.features.has(Incompatible::META_BG);
    let (nth, position) = superblock.descriptor_place(group);
    if meta_bg && nth >= superblock.first_meta_bg {
        return u64::from(position <= 1 || position.saturating_add(1) == per_block);
    }
    if !has_superblock(superblock, group) {
        return 0;
    }
    u64::from(if meta_bg {
        superblock.first_meta_bg
    } else {
        superblock
            .descriptor_place(superblock.groups_count.saturating_sub(1))
            .0
            .saturating_add(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock::parse(&crate::superblock::tests::sample(), 4 << 20).unwrap()
    }

    #[test]
    fn copies_are_in_powers_of_3_5_and_7() {
        let mut s = superblock();
        assert!((0..100).all(|group| has_superblock(&s, group)));
        s.features.read_only_compatible |= ReadOnlyCompatible::SPARSE_SUPER;
        let with: Vec<u32> = (0..130)
            .filter(|&group| has_superblock(&s, group))
            .collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
        s.features.compatible |= Compatible::SPARSE_SUPER2;
        s.backup_groups = [1, 42];
        let with: Vec<u32> = (0..130)
            .filter(|&group| has_superblock(&s, group))
            .collect();
        assert_eq!(with, [0, 1, 42]);
    }

    #[test]
    fn meta_bg_spreads_the_table() {
        let mut s = superblock();
        assert_eq!(table_block(&s, 3), FsBlock(4));
        s.features.incompatible |= Incompatible::META_BG;
        s.features.read_only_compatible |= ReadOnlyCompatible::SPARSE_SUPER;
        s.first_meta_bg = 1;
        assert_eq!(table_block(&s, 0), FsBlock(1));
        // A block has 128 descriptors. Group 128 has no superblock; group 0 of a filesystem with 1
        // KiB blocks has one.
        assert_eq!(table_block(&s, 1), FsBlock(128 * 32768));
        assert_eq!(table_blocks_in_group(&s, 0), 1);
        assert_eq!(table_blocks_in_group(&s, 2), 0);
        assert_eq!(table_blocks_in_group(&s, 129), 1);
        assert_eq!(table_blocks_in_group(&s, 130), 0);
        assert_eq!(table_blocks_in_group(&s, 255), 1);
    }

    #[test]
    fn a_table_outside_of_the_filesystem_is_corrupt() {
        let mut bytes = [0; 32];
        bytes[8..12].copy_from_slice(&1009u32.to_le_bytes());
        let e = GroupDescriptor::parse(&superblock(), 0, &bytes).unwrap_err();
        assert!(e.to_string().contains("block 1009, outside"), "{e}");
        bytes[8..12].copy_from_slice(&1008u32.to_le_bytes());
        assert!(GroupDescriptor::parse(&superblock(), 0, &bytes).is_ok());
    }
}
