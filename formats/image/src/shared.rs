//! Comparison of two disks by where they are stored: two states of one image, or an overlay and its
//! backing file.

use diskfs_block::{BlockRead, Result, check_bounds};

use crate::description::Description;
use crate::layer::{Layer, Status};
use crate::node::Node;

/// An image with its description, which identifies the files of its chain.
type Side<'a> = (&'a Node, &'a Description);

/// Returns true if both certainly have the same bytes in a range (its offset and length).
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

/// Returns true if two runs that begin at the same byte of the guest's disk are stored in the same
/// place.
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
    // In one state of one file, the same offset of the guest's disk has the same contents. In two
    // states, only the same cluster is known to be equal.
    let is_one_state = opened_snapshot(a) == opened_snapshot(b);
    is_one_state || of_a.host_offset.is_some() && of_a.host_offset == of_b.host_offset
}

/// Returns the image at this depth of the chain.
fn layer(top: &Description, depth: u32) -> Option<&Description> {
    (0..depth).try_fold(top, |image, _| image.backing.as_deref())
}

fn opened_snapshot(image: &Description) -> Option<usize> {
    image.qcow2.as_ref().and_then(|qcow2| qcow2.opened_snapshot)
}
