//! EROFS: `struct erofs_super_block` at 1024.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 1024;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    (view.le32(SB) == 0xe0f5_e1e2)
        .then(|| filesystem("erofs", view.label::<16>(SB + 64), view.uuid(SB + 48)))
}
