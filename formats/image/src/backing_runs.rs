//! The runs of a disk that come from the backing file of its overlay.

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::description::Description;
use crate::map::Map;
use crate::node::Node;
use crate::numbers::shift_right;
use crate::qcow2::units::SUBCLUSTERS_BITS;

/// The number of bytes to compare or copy at once; a multiple of every cluster size.
pub(crate) const PIECE_BYTES: u64 = 2 << 20;

/// The number of runs to collect at once: 64 KiB of memory.
const RUNS_MAX: usize = 1 << 12;

/// The smallest unit to compare and write; smaller clusters are not worth a step each.
const UNIT_MIN_BYTES: u64 = 4096;

/// Returns the unit to compare and write: the unit of zero flags, but not too small.
pub(crate) fn unit_bytes(description: &Description) -> u64 {
    let unit = match &description.qcow2 {
        Some(qcow2) if qcow2.extended_l2 => shift_right(qcow2.cluster_size_bytes, SUBCLUSTERS_BITS),
        Some(qcow2) => qcow2.cluster_size_bytes,
        None => 0,
    };
    unit.max(UNIT_MIN_BYTES)
}

/// Returns how much of the disk comes from the backing file.
pub(crate) fn bytes_from_backing(image: &Arc<Node>, may_be_zero: bool) -> Result<u64> {
    let (mut at, mut total) = (0, 0_u64);
    while at < image.size_bytes() {
        let (runs, end) = runs_from_backing(image, at, may_be_zero)?;
        let bytes = runs.iter().map(|run| run.end.saturating_sub(run.start));
        total = bytes.fold(total, u64::saturating_add);
        at = end;
    }
    Ok(total)
}

/// Returns the next runs from byte `at` on that the overlay does not store itself, except those
/// that read as zeroes if they `may_be_zero`. Adjacent runs are merged, so that they begin and end
/// with the overlay's own clusters. Also returns the byte up to which it searched, because tables
/// can have more runs than fit in memory.
pub(crate) fn runs_from_backing(
    image: &Arc<Node>,
    at: u64,
    may_be_zero: bool,
) -> Result<(Vec<Range<u64>>, u64)> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for run in Map::from(Arc::clone(image), at) {
        let run = run?;
        if run.depth == 0 && run.present || run.zero && may_be_zero {
            continue;
        }
        let end = run.start.saturating_add(run.len_bytes);
        let is_full = runs.len() >= RUNS_MAX;
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = end,
            _ if is_full => return Ok((runs, run.start)),
            _ => runs.push(run.start..end),
        }
    }
    Ok((runs, image.size_bytes()))
}
