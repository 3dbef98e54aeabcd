//! Metadata that device-mapper targets store on their devices (Linux,
//! `Documentation/admin-guide/device-mapper`).

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

/// Recognises the store of a snapshot: `struct disk_header`.
pub(super) fn snapshot(view: &View<'_>) -> Option<Content> {
    view.has(0, b"SnAp")
        .then(|| container("DM_snapshot_cow", Vec::new(), None))
}

/// Recognises the hash device of a dm-verity volume: `struct verity_sb`.
pub(super) fn verity(view: &View<'_>) -> Option<Content> {
    (view.has(0, b"verity\0\0") && view.le32(8) == 1) // version
        .then(|| container("DM_verity_hash", Vec::new(), view.uuid(16)))
}

/// Recognises data with dm-integrity tags: `struct superblock`.
pub(super) fn integrity(view: &View<'_>) -> Option<Content> {
    view.has(0, b"integrt\0")
        .then(|| container("DM_integrity", Vec::new(), None))
}
