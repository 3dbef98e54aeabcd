//! UBI and UBIFS, on raw flash (Linux, `ubi-media.h`, `ubifs-media.h`).

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

/// Recognises `struct ubi_ec_hdr`; the image number takes the place of a UUID.
pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let image = view.be32(24);
    (view.has(0, b"UBI#") && view.u8(4) == 1) // version
        .then(|| container("ubi", Vec::new(), Some(image.to_string())))
}

/// Recognises `struct ubifs_sb_node`.
pub(super) fn ubifs(view: &View<'_>) -> Option<Content> {
    const SB_NODE: u8 = 6;
    (view.has(0, b"\x31\x18\x10\x06") && view.u8(20) == SB_NODE)
        .then(|| filesystem("ubifs", Vec::new(), view.uuid(108)))
}
