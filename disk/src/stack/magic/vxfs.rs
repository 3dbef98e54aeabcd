//! `VxFS` of Veritas: the superblock is at 1 KiB; on HP-UX it is at 8 KiB and big-endian.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(1024, b"\xf5\xfc\x01\xa5").then(vxfs)
}

pub(super) fn hp_ux(view: &View<'_>) -> Option<Content> {
    view.has(8192, b"\xa5\x01\xfc\xf5").then(vxfs)
}

fn vxfs() -> Content {
    filesystem("vxfs", Vec::new(), None)
}
