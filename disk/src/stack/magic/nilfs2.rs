//! NILFS2: `struct nilfs_super_block` at 1024.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 1024;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let is_nilfs2 = view.le16(SB + 6) == 0x3434 && view.le32(SB) == 2; // magic, major revision
    is_nilfs2.then(|| filesystem("nilfs2", view.label::<80>(SB + 168), view.uuid(SB + 152)))
}
