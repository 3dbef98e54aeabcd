//! cramfs, `struct cramfs_super`, in either byte order; and romfs, `struct romfs_super_block`.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn cramfs(view: &View<'_>) -> Option<Content> {
    let is_super = |at: &u64| {
        (view.has(*at, b"\x45\x3d\xcd\x28") || view.has(*at, b"\x28\xcd\x3d\x45"))
            && view.has(at + 16, b"Compressed ROMFS")
    };
    let at = [0, 512].into_iter().find(is_super)?;
    Some(filesystem("cramfs", view.label::<16>(at + 48), None))
}

pub(super) fn romfs(view: &View<'_>) -> Option<Content> {
    view.has(0, b"-rom1fs-")
        .then(|| filesystem("romfs", view.label::<16>(16), None))
}
