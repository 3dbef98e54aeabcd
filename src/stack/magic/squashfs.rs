//! Squashfs: `struct squashfs_super_block`.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"hsqs")
        .then(|| filesystem("squashfs", Vec::new(), None))
}
