//! What two disks have in common by where it is stored: states of one image, or an overlay and what is
//! behind it.

use diskfs_block::{BlockRead, Result, check_bounds};

use crate::description::Description;
use crate::layer::{Layer, Status};
use crate::node::Node;

/// An image with what it says of itself, for the files of its chain.
type Side<'a> = (&'a Node, &'a Description);

/// Whether both surely have the same bytes in a range (its offset and length).
pub(crate) fn shares(a: Side<'_>, b: Side<'_>, (offset, len_bytes): (u64, u64)) -> Result<bool> {
    check_bounds(offset, len_bytes, a.0.size_bytes())?;
    check_bounds(offset, len_bytes, b.0.size_bytes())?;
    let (mut at, mut left) = (offset, len_bytes);
    while left > 0 {
        let (of_a, of_b) = (a.0.status_at(at, left)?, b.0.status_at(at, left)?);
        if !is_same(a.1, &of_a, b.1, &of_b) {
            return Ok(false);
        }
        let step = of_a.len_bytes.min(of_b.len_bytes).max(1);
        at = at.saturating_add(step);
        left = left.saturating_sub(step);
    }
    Ok(true)
}

/// Whether two runs that begin at the same byte of the guest's disk are the same one.
fn is_same(a: &Description, of_a: &Status, b: &Description, of_b: &Status) -> bool {
    if of_a.kind().reads_as_zeroes() || of_b.kind().reads_as_zeroes() {
        return of_a.kind().reads_as_zeroes() && of_b.kind().reads_as_zeroes();
    }
    let (Some(a), Some(b)) = (layer(a, of_a.depth), layer(b, of_b.depth)) else {
        return false;
    };
    if a.file_id.is_none() || a.file_id != b.file_id || a.format != b.format {
        return false;
    }
    // One state of one file has the same at the same place of the guest's disk; of two states, only
    // what is in the same cluster is known to be.
    let is_one_state = opened_snapshot(a) == opened_snapshot(b);
    is_one_state || of_a.host_offset.is_some() && of_a.host_offset == of_b.host_offset
}

/// The image so far down the chain.
fn layer(top: &Description, depth: u32) -> Option<&Description> {
    (0..depth).try_fold(top, |image, _| image.backing.as_deref())
}

fn opened_snapshot(image: &Description) -> Option<usize> {
    image.qcow2.as_ref().and_then(|qcow2| qcow2.opened_snapshot)
}
