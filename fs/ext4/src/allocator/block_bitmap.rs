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

/// A bitmap as it is now, or as it will be when something in the group is used first.
#[derive(Debug)]
pub(super) struct Bitmap {
    pub(super) bytes: Arc<[u8]>,
    /// Whether it is not on the device yet.
    made: bool,
}

impl Bitmap {
    pub(super) const fn on_device(bytes: Arc<[u8]>) -> Self {
        Self { bytes, made: false }
    }

    pub(super) fn made(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into(),
            made: true,
        }
    }

    /// Changes it. Returns its new checksum, if bitmaps have one.
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
            // Else the change would have to copy it.
            drop(bytes);
        }
        let superblock = &handle.volume().superblock;
        handle.change(key, |bitmap| {
            change(bitmap);
            checksum(superblock, bitmap, checked_bytes)
        })
    }
}

/// The checksum of the first bytes of a bitmap, those that have a bit that counts.
pub(super) fn checksum(superblock: &Superblock, bitmap: &[u8], bytes: usize) -> Option<u32> {
    let seed = superblock.checksum_seed?;
    Some(seed.of(&[bitmap.get(..bytes).unwrap_or(bitmap)]))
}

/// Compares a bitmap with the checksum that its descriptor has of it.
pub(super) fn verify(
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

/// The bits of a bitmap's checksum that have room in a descriptor.
pub(super) fn stored(superblock: &Superblock) -> u32 {
    const WITH_UPPER_HALVES: u16 = 64;
    if superblock.descriptor_size >= WITH_UPPER_HALVES {
        u32::MAX
    } else {
        u32::from(u16::MAX)
    }
}

/// Whether the flags of descriptors and their counts of unused inodes mean something.
pub(super) fn has_flags(superblock: &Superblock) -> bool {
    use crate::features::ReadOnlyCompatible;
    superblock.checksum_seed.is_some() || superblock.features.has(ReadOnlyCompatible::GDT_CSUM)
}

impl Allocator {
    /// A group's bitmap, which agrees with its descriptor.
    pub(super) fn block_bitmap(
        &self,
        volume: &Volume,
        group: u32,
        descriptor: &GroupDescriptor,
    ) -> Result<Bitmap> {
        if descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) && has_flags(&volume.superblock) {
            let made = self.initial_block_bitmap(group);
            self.check_free_clusters(group, descriptor, &made)?;
            return Ok(Bitmap::made(made));
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
        let problem = "blocks that hold metadata are free in it";
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
        let problem = "it has not as many free blocks as the descriptor says";
        Err(malformed(Structure::BlockBitmap(group), problem))
    }

    /// How much of a block bitmap its checksum covers.
    pub(super) fn block_bitmap_bytes(&self) -> usize {
        index(self.geometry.clusters_per_group().wrapping_div(8))
    }

    /// The bitmap of a group in which nothing but metadata is in use.
    fn initial_block_bitmap(&self, group: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.bitmap_bytes];
        for run in self.system_runs(group) {
            bits::set(&mut bytes, run);
        }
        set_rest(&mut bytes, self.geometry.clusters_in(group));
        bytes
    }

    /// What of a group's clusters holds metadata.
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

/// Sets what is behind the last bit that counts.
pub(super) fn set_rest(bitmap: &mut [u8], len: u32) {
    let bits = u32::try_from(bitmap.len())
        .unwrap_or(u32::MAX)
        .saturating_mul(8);
    let rest = Run {
        start: len,
        len: bits.saturating_sub(len),
    };
    bits::set(bitmap, rest);
}
