//! The smallest device for a tree of files.

use super::options::FormatOptions;
use super::plan::Plan;
use super::tree_usage::{TreeForm, TreeUsage};
use crate::error::{Error, ErrorKind, Result};
use crate::features::Incompatible;

/// The smallest size that is tried.
const START_BYTES: u64 = 128 << 10;
/// The unit of the result: whole blocks of most filesystems, and sectors of all disks.
const UNIT_BYTES: u64 = 64 << 10;
/// The result is at most this part of itself larger than the smallest size.
const PRECISION: u64 = 4096;
/// The maximum number of sizes that are tried.
const ATTEMPTS_MAX: u32 = 400;

/// The share of the tree's clusters that stays free, because free space is fragmented at the end:
/// extent trees may need more nodes than estimated.
const SLACK_SHARE: u64 = 200;
/// The number of clusters that stay free for the same reason in a small filesystem.
const SLACK_CLUSTERS: u64 = 8;

/// A filesystem of some size, compared with the needs of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Fits,
    /// So many bytes are missing, at least.
    Missing(u64),
}

/// Returns the smallest size in bytes of a device on which `options` create a filesystem with room
/// for a tree. Root's reserve remains free; whoever creates the tree must open the filesystem with
/// [`RootReserve::UseAll`](crate::RootReserve::UseAll).
///
/// A tree of small files may need a device that is larger only for the sake of its inodes. To
/// prevent that, set [`FormatOptions::inodes`] to [`TreeUsage::inodes`].
///
/// # Errors
/// `Invalid` for options that contradict each other, or that fit no device.
pub fn fitting_size(options: &FormatOptions, usage: &TreeUsage) -> Result<u64> {
    let mut too_small = 0;
    let mut size = START_BYTES;
    let mut reason = None;
    for _ in 0..ATTEMPTS_MAX {
        let step = match compare(options, usage, size) {
            Ok(Comparison::Fits) => return smallest(options, usage, too_small, size),
            Ok(Comparison::Missing(bytes)) => bytes,
            // A larger device may be able to have what these options want.
            Err(e) if e.kind() == ErrorKind::Invalid => {
                reason = Some(e);
                size.wrapping_div(4)
            }
            Err(e) => return Err(e),
        };
        too_small = size;
        let step = step.max(UNIT_BYTES).checked_next_multiple_of(UNIT_BYTES);
        match step.and_then(|step| size.checked_add(step)) {
            Some(larger) => size = larger,
            None => break,
        }
    }
    Err(reason.unwrap_or_else(|| {
        let reason = "no size of a device fits the tree of files with these options";
        Error::new(ErrorKind::Invalid, reason)
    }))
}

/// Returns the smallest fitting size above `too_small`, up to `fits`.
fn smallest(options: &FormatOptions, usage: &TreeUsage, too_small: u64, fits: u64) -> Result<u64> {
    let (mut too_small, mut fits) = (too_small, fits);
    let precision = UNIT_BYTES.max(fits.wrapping_div(PRECISION));
    while fits.saturating_sub(too_small) > precision {
        let half = fits.saturating_sub(too_small).wrapping_div(2);
        let middle = too_small.saturating_add(half).next_multiple_of(UNIT_BYTES);
        if middle >= fits {
            break;
        }
        match compare(options, usage, middle) {
            Ok(Comparison::Fits) => fits = middle,
            Ok(Comparison::Missing(_)) => too_small = middle,
            Err(e) if e.kind() == ErrorKind::Invalid => too_small = middle,
            Err(e) => return Err(e),
        }
    }
    Ok(fits)
}

fn compare(options: &FormatOptions, usage: &TreeUsage, size_bytes: u64) -> Result<Comparison> {
    let plan = Plan::new(options, size_bytes)?;
    let superblock = &plan.superblock;
    let size = superblock.block_size;
    let cluster_bits = superblock.cluster_ratio_bits;
    let form = TreeForm {
        block_bits: size.bits(),
        cluster_bits: size.bits().saturating_add(cluster_bits),
        has_extents: superblock.features.has(Incompatible::EXTENTS),
        has_large_inodes: superblock.inode_size > 128,
    };
    let clusters = usage.clusters(form);
    let slack = clusters
        .wrapping_div(SLACK_SHARE)
        .saturating_add(SLACK_CLUSTERS);
    let blocks = clusters.saturating_add(slack).wrapping_shl(cluster_bits);
    let needed = blocks.saturating_add(superblock.reserved_blocks_count);
    let missing_blocks = needed.saturating_sub(plan.free_blocks(0..superblock.blocks_count));
    let missing_inodes = usage
        .inodes_with_own()
        .saturating_sub(u64::from(superblock.inodes_count));
    if missing_blocks == 0 && missing_inodes == 0 {
        return Ok(Comparison::Fits);
    }
    let per_inode = size_bytes
        .checked_div(u64::from(superblock.inodes_count))
        .unwrap_or(0);
    let bytes = size
        .bytes_of(missing_blocks)
        .max(per_inode.saturating_mul(missing_inodes));
    Ok(Comparison::Missing(bytes))
}
