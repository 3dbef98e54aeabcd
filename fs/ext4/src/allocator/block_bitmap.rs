//! Block bitmaps: one bit for each cluster of a group.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Block and inode
//! Bitmaps".

use std::sync::Arc;

use crate::bytes::index;
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::transaction::TransactionHandle;
use crate::volume::Volume;

use super::Allocator;
use super::bits::{self, Bits, Run};

/// A bitmap as it is now, or, in an uninitialised group, as it will be after the first allocation.
#[derive(Debug)]
pub(super) struct Bitmap {
    pub(super) bytes: Arc<[u8]>,
    /// True if the bitmap was generated in memory and is not on the device yet.
    made: bool,
}

impl Bitmap {
    pub(super) const fn on_device(bytes: Arc<[u8]>) -> Self {
        Self { bytes, made: false }
    }

    pub(super) fn generated(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into(),
            made: true,
        }
    }

    /// Changes the bitmap. Returns its new checksum if bitmaps have checksums.
    pub(super) fn change(
        self,
        handle: &TransactionHandle<'_>,
        key: Key,
        checked_bytes: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<Option<u32>> {
        let Self { bytes, made } = self;
        if made {
            handle.replace(key, bytes);
        } else {
            // Without this drop the change would have to copy the bitmap.
            drop(bytes);
        }
        let superblock = &handle.volume().superblock;
        handle.change(key, |bitmap| {
            change(bitmap);
            checksum(superblock, bitmap, checked_bytes)
        })
    }
}

/// Returns the checksum of a bitmap: of its first bytes, which contain the valid bits.
pub(crate) fn checksum(superblock: &Superblock, bitmap: &[u8], bytes: usize) -> Option<u32> {
    let seed = superblock.checksum_seed?;
    Some(seed.of(&[bitmap.get(..bytes).unwrap_or(bitmap)]))
}

/// Compares a bitmap with the checksum in its group descriptor.
pub(crate) fn verify(
    superblock: &Superblock,
    structure: Structure,
    bitmap: &[u8],
    bytes: usize,
    actual: u32,
) -> Result<()> {
    let Some(expected) = checksum(superblock, bitmap, bytes) else {
        return Ok(());
    };
    let expected = expected & stored(superblock);
    if expected == actual {
        return Ok(());
    }
    Err(Corrupt::Checksum {
        structure,
        expected,
        actual,
    }
    .into())
}

/// Returns a mask of the checksum bits that fit into a descriptor (16 or 32).
pub(crate) fn stored(superblock: &Superblock) -> u32 {
    const WITH_UPPER_HALVES: u16 = 64;
    if superblock.descriptor_size >= WITH_UPPER_HALVES {
        u32::MAX
    } else {
        u32::from(u16::MAX)
    }
}

/// Returns true if the flags of descriptors and their counts of unused inodes are valid.
pub(crate) fn has_flags(superblock: &Superblock) -> bool {
    use crate::features::ReadOnlyCompatible;
    superblock.checksum_seed.is_some() || superblock.features.has(ReadOnlyCompatible::GDT_CSUM)
}

impl Allocator {
    /// Reads a group's block bitmap, and checks that it agrees with its descriptor.
    pub(super) fn block_bitmap(
        &self,
        volume: &Volume,
        group: u32,
        descriptor: &GroupDescriptor,
    ) -> Result<Bitmap> {
        if descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) && has_flags(&volume.superblock) {
            let made = self.initial_block_bitmap(group);
            self.check_free_clusters(group, descriptor, &made)?;
            return Ok(Bitmap::generated(made));
        }
        let key = Key::block_bitmap(group, descriptor.block_bitmap);
        let bytes = volume.checked_block(key, |bytes| {
            self.check_block_bitmap(&volume.superblock, group, descriptor, bytes)
        })?;
        Ok(Bitmap::on_device(bytes))
    }

    fn check_block_bitmap(
        &self,
        superblock: &Superblock,
        group: u32,
        descriptor: &GroupDescriptor,
        bytes: &[u8],
    ) -> Result<()> {
        verify(
            superblock,
            Structure::BlockBitmap(group),
            bytes,
            self.block_bitmap_bytes(),
            descriptor.block_bitmap_checksum,
        )?;
        self.check_free_clusters(group, descriptor, bytes)?;
        let bits = Bits::new(bytes, None, self.geometry.clusters_in(group));
        let in_use = |run: Run| {
            bits.next_clear(run.start)
                .is_none_or(|bit| bit >= run.end())
        };
        if self.system_runs(group).all(in_use) {
            return Ok(());
        }
        let problem = "it marks blocks that hold metadata as free";
        Err(malformed(Structure::BlockBitmap(group), problem))
    }

    fn check_free_clusters(
        &self,
        group: u32,
        descriptor: &GroupDescriptor,
        bytes: &[u8],
    ) -> Result<()> {
        let bits = Bits::new(bytes, None, self.geometry.clusters_in(group));
        if bits.count_clear() == descriptor.free_clusters {
            return Ok(());
        }
        let problem = "its number of free blocks differs from the group descriptor's";
        Err(malformed(Structure::BlockBitmap(group), problem))
    }

    /// Returns how many bytes of a block bitmap its checksum covers.
    pub(super) fn block_bitmap_bytes(&self) -> usize {
        index(self.geometry.clusters_per_group().wrapping_div(8))
    }

    /// Generates the bitmap of a group in which only metadata is in use.
    fn initial_block_bitmap(&self, group: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.bitmap_bytes];
        for run in self.system_runs(group) {
            bits::set(&mut bytes, run);
        }
        set_padding(&mut bytes, self.geometry.clusters_in(group));
        bytes
    }

    /// Returns the runs of a group's clusters that hold metadata.
    fn system_runs(&self, group: u32) -> impl Iterator<Item = Run> + '_ {
        let first = self.geometry.first_block(group);
        let zones = self
            .system_zone
            .within(first, self.geometry.blocks_in(group));
        zones.filter_map(|(first, len_blocks)| {
            let mut parts = self.geometry.parts(first, len_blocks)?;
            parts.next().map(|(_, run)| run)
        })
    }
}

/// Sets all bits after the last valid one.
pub(crate) fn set_padding(bitmap: &mut [u8], len: u32) {
    let bits = u32::try_from(bitmap.len())
        .unwrap_or(u32::MAX)
        .saturating_mul(8);
    let rest = Run {
        start: len,
        len: bits.saturating_sub(len),
    };
    bits::set(bitmap, rest);
}
