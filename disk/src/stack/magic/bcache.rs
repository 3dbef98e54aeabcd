//! bcache and bcachefs: `struct cache_sb` and `struct bch_sb` at 4 KiB, which begin alike.

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 4096;

const BCACHE: &[u8; 16] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8; 16] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

/// Returns true for bcache: its superblock records its own position, in sectors, where bcachefs has
/// the second half of a checksum.
fn is_bcache(view: &View<'_>) -> bool {
    view.has(SB + 24, BCACHE) && view.le64(SB + 8) == SB / 512
}

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    is_bcache(view).then(|| container("bcache", view.label::<32>(SB + 72), view.uuid(SB + 40)))
}

/// Recognises bcachefs. The UUID is that of the filesystem (`user_uuid`), not of this member. The
/// first versions have bcache's magic.
pub(super) fn bcachefs(view: &View<'_>) -> Option<Content> {
    let is_bcachefs = view.has(SB + 24, BCACHEFS) || view.has(SB + 24, BCACHE) && !is_bcache(view);
    is_bcachefs.then(|| filesystem("bcachefs", view.label::<32>(SB + 72), view.uuid(SB + 56)))
}
