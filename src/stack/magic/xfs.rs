//! XFS (XFS Algorithms & Data Structures, "Superblocks").

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"XFSB")
        .then(|| filesystem("xfs", view.label::<12>(108), view.uuid(32)))
}
