//! APFS (Apple File System Reference, `nx_superblock_t`).

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(32, b"NXSB")
        .then(|| filesystem("apfs", Vec::new(), view.uuid(72)))
}
