//! mpool, of HSE: `struct omf_sb_descriptor`.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"mpoolDev")
        .then(|| container("mpool", view.label::<32>(8), view.uuid(40)))
}
