//! The default sizes of the journal and of the orphan file, which depend on the size of the
//! filesystem.

use super::geometry::Geometry;
use super::options::FormatOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Compatible;

/// The minimum size of a journal, `JBD2_MIN_JOURNAL_BLOCKS`.
const JOURNAL_BLOCKS_MIN: u64 = 1024;
/// The maximum that the driver replays (4 GiB of blocks of 4 KiB).
const JOURNAL_BLOCKS_MAX: u64 = 1 << 20;
/// A filesystem with fewer blocks has no journal by default.
const FILESYSTEM_BLOCKS_MIN: u64 = 2048;
/// The ratio of the log to the area of fast commits, `EXT2_JOURNAL_TO_FC_BLKS_RATIO`.
const FAST_COMMIT_SHARE: u64 = 64;
/// The maximum size of the orphan file, `EXT4_MAX_ORPHAN_FILE_BLOCKS`.
const ORPHAN_BLOCKS_MAX: u64 = 512;

/// The size of the journal in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalSize {
    /// The number of blocks, including those for fast commits.
    pub(super) blocks: u64,
    /// The number of blocks at the end for fast commits.
    pub(super) fast_commit_blocks: u64,
}

/// Returns the size of the journal, or `None` for a filesystem without one. A filesystem that is
/// too small for a journal has none, unless the options give its size.
///
/// # Errors
/// `Invalid` for a size that is too small or too large.
pub(super) fn journal_size(
    options: &FormatOptions,
    geometry: &Geometry,
) -> Result<Option<JournalSize>> {
    if !geometry.features.has(Compatible::HAS_JOURNAL) {
        return Ok(None);
    }
    let wanted = &options.journal;
    let size = geometry.block_size;
    let Some(default) = default_blocks(geometry.blocks_count) else {
        if wanted.size_mib.is_none() {
            return Ok(None);
        }
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the filesystem is too small for a journal: it needs {FILESYSTEM_BLOCKS_MIN} blocks"
            ),
        ));
    };
    let of_kib = |kib: u64| kib.saturating_mul(1024).wrapping_shr(size.bits());
    let log = wanted
        .size_mib
        .map_or(default, |mib| of_kib(u64::from(mib).saturating_mul(1024)));
    let fast_commit_blocks = if geometry.features.has(Compatible::FAST_COMMIT) {
        let share = default.wrapping_div(FAST_COMMIT_SHARE);
        wanted
            .fast_commit_kib
            .map_or(share, |kib| of_kib(u64::from(kib)))
    } else {
        0
    };
    let blocks = log.saturating_add(fast_commit_blocks);
    if !(JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&blocks) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "invalid journal size of {blocks} blocks: expected {JOURNAL_BLOCKS_MIN} to \
                 {JOURNAL_BLOCKS_MAX}"
            ),
        ));
    }
    Ok(Some(JournalSize {
        blocks,
        fast_commit_blocks,
    }))
}

/// Returns the default number of blocks for a filesystem of so many blocks.
fn default_blocks(blocks_count: u64) -> Option<u64> {
    const K: u64 = 1024;
    Some(match blocks_count {
        0..FILESYSTEM_BLOCKS_MIN => return None,
        FILESYSTEM_BLOCKS_MIN..32_768 => K,
        32_768..262_144 => 4 * K,
        262_144..524_288 => 8 * K,
        524_288..4_194_304 => 16 * K,
        4_194_304..8_388_608 => 32 * K,
        8_388_608..16_777_216 => 64 * K,
        16_777_216..33_554_432 => 128 * K,
        _ => 256 * K,
    })
}

/// Returns the number of blocks of the orphan file: whole clusters.
pub(super) fn orphan_file_blocks(options: &FormatOptions, geometry: &Geometry) -> u64 {
    const SMALL_END: u64 = 128 * 1024;
    const MEDIUM_END: u64 = 2 * 1024 * 1024;
    const SHARE: u64 = 4096;
    const MIN: u64 = 32;
    let default = match geometry.blocks_count {
        0..SMALL_END => MIN,
        SMALL_END..MEDIUM_END => geometry.blocks_count.wrapping_div(SHARE),
        _ => ORPHAN_BLOCKS_MAX,
    };
    let default = default.next_multiple_of(1u64.wrapping_shl(geometry.cluster_bits));
    let wanted = options.extended.orphan_file;
    let blocks = wanted.map_or(default, |count| geometry.blocks_of(count).max(1));
    blocks.min(ORPHAN_BLOCKS_MAX)
}
