//! F2FS: `struct f2fs_super_block` at 1024; the label is UTF-16.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 1024;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    (view.le32(SB) == 0xf2f5_2010).then(|| {
        let label = view.utf16_le(SB + 124, 512);
        filesystem("f2fs", label, view.uuid(SB + 108))
    })
}
