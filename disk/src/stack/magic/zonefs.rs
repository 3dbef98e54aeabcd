//! zonefs, `struct zonefs_super`.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"SFOZ")
        .then(|| filesystem("zonefs", view.label::<32>(8), view.uuid(40)))
}
