//! Bitmaps, and the counts of free blocks, free inodes and directories.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::context::Context;
use super::finding::{FindingKind, FindingPlace};
use super::groups::Group;
use crate::allocator::{bitmap_checksum, bitmap_checksum_mask};
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::Result;
use crate::superblock::RawSuperblock;

/// The pass over all bitmaps, which several threads run.
#[derive(Debug)]
pub(super) struct SummaryPass<'a> {
    pub(super) context: &'a Context<'a>,
    /// The number of clusters with metadata at fixed places, by group.
    pub(super) metadata_clusters: Vec<AtomicU32>,
    /// The first group whose block bitmap was not compared yet.
    pub(super) first_unchecked: u32,
    pub(super) free_clusters: AtomicU64,
    pub(super) free_inodes: AtomicU64,
}

/// A bitmap, and the bits that it should have.
struct Bitmap<'a> {
    kind: FindingKind,
    what: &'static str,
    group: u32,
    place: FsBlock,
    /// The number of valid bits.
    len: u32,
    /// The number of bits that the checksum covers.
    checked_bits: u32,
    checksum: u32,
    expected: &'a [u64],
}

impl<'a> SummaryPass<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Result<Self> {
        let groups = context.groups.len();
        context.budget.take::<AtomicU32>(groups)?;
        let counts = std::iter::repeat_with(AtomicU32::default).take(groups);
        Ok(Self {
            context,
            metadata_clusters: counts.collect(),
            first_unchecked: 0,
            free_clusters: AtomicU64::new(0),
            free_inodes: AtomicU64::new(0),
        })
    }

    /// Checks the bitmaps and the counts of a group.
    pub(super) fn check(&self, group: u32) -> Result<()> {
        let context = self.context;
        context.progress.advance()?;
        let Some(found) = context.groups.get(index(group)) else {
            return Ok(());
        };
        let inodes = context.inodes.words(group);
        if group >= self.first_unchecked {
            self.check_blocks(group)?;
        }
        self.check_inodes(group, found, &inodes)?;
        self.check_counts(group, found, &inodes);
        Ok(())
    }

    /// Notes how many clusters are claimed in the stored groups, which is before inodes claim some.
    pub(super) fn count_metadata(&self) {
        for group in self.context.claimed.stored() {
            if let Some(count) = self.metadata_clusters.get(index(group)) {
                count.store(self.context.claimed.count(group), Ordering::Relaxed);
            }
        }
    }

    /// Compares the block bitmap of a group.
    pub(super) fn check_blocks(&self, group: u32) -> Result<()> {
        let context = self.context;
        let Some(found) = context.groups.get(index(group)) else {
            return Ok(());
        };
        if found.is_block_uninit(context.volume) {
            let used = context.claimed.count(group);
            let metadata = self.metadata_clusters.get(index(group));
            let metadata = metadata.map(|count| count.load(Ordering::Relaxed));
            if metadata != Some(used) {
                let detail = format!(
                    "the block bitmap is marked as uninitialized, but {used} clusters are in use, \
                     {} of them by metadata",
                    metadata.unwrap_or(0)
                );
                let place = FindingPlace::group(group);
                context.found(FindingKind::BlockBitmap, place, detail);
            }
            return Ok(());
        }
        let descriptor = &found.descriptor;
        self.check_bitmap(
            found,
            &Bitmap {
                kind: FindingKind::BlockBitmap,
                what: "block bitmap",
                group,
                place: descriptor.block_bitmap,
                len: context.geometry.clusters_in(group),
                checked_bits: context.geometry.clusters_per_group(),
                checksum: descriptor.block_bitmap_checksum,
                expected: &context.claimed.words(group),
            },
        )
    }

    fn check_inodes(&self, group: u32, found: &Group, inodes: &[u64]) -> Result<()> {
        let context = self.context;
        if found.is_inode_uninit(context.volume) {
            return Ok(());
        }
        let descriptor = &found.descriptor;
        let len = context.geometry.inodes_per_group;
        self.check_bitmap(
            found,
            &Bitmap {
                kind: FindingKind::InodeBitmap,
                what: "inode bitmap",
                group,
                place: descriptor.inode_bitmap,
                len,
                checked_bits: len,
                checksum: descriptor.inode_bitmap_checksum,
                expected: inodes,
            },
        )
    }

    fn check_bitmap(&self, found: &Group, bitmap: &Bitmap<'_>) -> Result<()> {
        let context = self.context;
        if !found.has_bitmaps {
            return Ok(());
        }
        let bytes = context.volume.read_blocks(bitmap.place, 1)?;
        let superblock = context.superblock();
        let place = || FindingPlace::group(bitmap.group).with_block(bitmap.place.0);
        let covered = index(bitmap.checked_bits.wrapping_div(8));
        let expected = bitmap_checksum(superblock, &bytes, covered);
        let expected = expected.map(|sum| sum & bitmap_checksum_mask(superblock));
        if let Some(expected) = expected
            && expected != bitmap.checksum
        {
            let detail = format!(
                "the checksum of the {} is {:#x}, expected {expected:#x}",
                bitmap.what, bitmap.checksum
            );
            context.found(FindingKind::BitmapChecksum, place(), detail);
        }
        compare(context, bitmap, &bytes);
        let padding = bytes.get(index(bitmap.len.div_ceil(8))..);
        if padding.unwrap_or_default().iter().any(|&byte| byte != 0xff)
            || !padding_bits(bitmap, &bytes)
        {
            let detail = format!("not all bits after the end of the {} are set", bitmap.what);
            context.found(FindingKind::BitmapPadding, place(), detail);
        }
        Ok(())
    }

    fn check_counts(&self, group: u32, found: &Group, inodes: &[u64]) {
        let context = self.context;
        let clusters = context.geometry.clusters_in(group);
        let free_clusters = clusters.saturating_sub(context.claimed.count(group));
        let used_inodes = inodes
            .iter()
            .fold(0u32, |sum, word| sum.saturating_add(word.count_ones()));
        let free_inodes = context
            .geometry
            .inodes_per_group
            .saturating_sub(used_inodes);
        self.free_clusters
            .fetch_add(u64::from(free_clusters), Ordering::Relaxed);
        self.free_inodes
            .fetch_add(u64::from(free_inodes), Ordering::Relaxed);
        let descriptor = &found.descriptor;
        let directories = context.inodes.directories(group);
        let counts = [
            (
                "free blocks or clusters",
                descriptor.free_clusters,
                free_clusters,
            ),
            ("free inodes", descriptor.free_inodes, free_inodes),
            ("directories", descriptor.used_directories, directories),
        ];
        for (what, stored, expected) in counts {
            if stored != expected {
                let detail = format!("the number of {what} is {stored}, expected {expected}");
                context.found(FindingKind::GroupCount, FindingPlace::group(group), detail);
            }
        }
    }

    /// Compares the superblock's counts with the sums. While a filesystem is in use these counts are
    /// out of date, so they are not compared if it was recovered.
    pub(super) fn check_totals(&self, raw: &RawSuperblock) {
        let context = self.context;
        let superblock = context.superblock();
        let clusters = self.free_clusters.load(Ordering::Relaxed);
        let free_blocks = clusters.wrapping_shl(superblock.cluster_ratio_bits);
        let high = if superblock
            .features
            .has(crate::features::Incompatible::SIXTY_FOUR_BIT)
        {
            raw.s_free_blocks_count_hi.get()
        } else {
            0
        };
        let stored_blocks = crate::bytes::join64(high, raw.s_free_blocks_count_lo.get());
        let counts = [
            ("free blocks", stored_blocks, free_blocks),
            (
                "free inodes",
                u64::from(raw.s_free_inodes_count.get()),
                self.free_inodes.load(Ordering::Relaxed),
            ),
        ];
        for (what, stored, expected) in counts {
            if stored != expected {
                let detail =
                    format!("the superblock's number of {what} is {stored}, expected {expected}");
                let place = FindingPlace::filesystem();
                context.found(FindingKind::SuperblockCount, place, detail);
            }
        }
    }
}

/// Returns true if the bits after the last valid one of its byte are set.
fn padding_bits(bitmap: &Bitmap<'_>, bytes: &[u8]) -> bool {
    let valid = bitmap.len & 7;
    let last = bytes.get(index(bitmap.len.wrapping_div(8))).copied();
    valid == 0 || last.is_none_or(|byte| byte.wrapping_shr(valid) == 0xffu8.wrapping_shr(valid))
}

/// Compares the valid bits of a bitmap with those that were found.
fn compare(context: &Context<'_>, bitmap: &Bitmap<'_>, bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0;
    let mut wrong = [0u64; 2];
    let mut first: [Option<u32>; 2] = [None; 2];
    for (nth, (stored, expected)) in (0u32..).zip(words.iter().zip(bitmap.expected)) {
        let base = nth.saturating_mul(u64::BITS);
        let valid = bitmap.len.saturating_sub(base);
        let mask = if valid >= u64::BITS {
            u64::MAX
        } else {
            !u64::MAX.wrapping_shl(valid)
        };
        let stored = u64::from_le_bytes(*stored) & mask;
        let expected = expected & mask;
        let differences = [expected & !stored, stored & !expected];
        for ((wrong, first), bits) in wrong.iter_mut().zip(&mut first).zip(differences) {
            *wrong = wrong.saturating_add(u64::from(bits.count_ones()));
            if bits != 0 {
                *first = first.or_else(|| Some(base.saturating_add(bits.trailing_zeros())));
            }
        }
    }
    let [unmarked, marked] = wrong;
    if unmarked == 0 && marked == 0 {
        return;
    }
    let position = first.iter().flatten().min().copied().unwrap_or(0);
    let detail = format!(
        "{unmarked} bits of the {} are clear although in use, and {marked} are set although free; \
         the first is bit {position}",
        bitmap.what
    );
    let place = FindingPlace::group(bitmap.group).with_block(bitmap.place.0);
    context.found(bitmap.kind, place, detail);
}
