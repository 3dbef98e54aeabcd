//! JFS: `struct jfs_superblock` at 32 KiB.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 32 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(SB, b"JFS1")
        .then(|| filesystem("jfs", view.label::<16>(SB + 152), view.uuid(SB + 136)))
}
