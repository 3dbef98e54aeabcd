//! VDO: `struct geometry_block` and the `struct volume_geometry` in it.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"dmvdo001")
        .then(|| container("vdo", Vec::new(), view.uuid(40)))
}
