//! Squashfs: `struct squashfs_super_block`; up to version 3 in either byte order.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let major = match () {
        () if view.has(0, b"hsqs") => view.le16(28),
        () if view.has(0, b"sqsh") => view.be16(28),
        () => return None,
    };
    let kind = match major {
        ..=3 => "squashfs3",
        _ => "squashfs",
    };
    Some(filesystem(kind, Vec::new(), None))
}
