//! Members of arrays of md: versions 1.1 (at 0) and 1.2 (at 4 KiB) of its superblock (md(4)).
//!
//! Versions 0.90 and 1.0 stand at the end and leave the filesystem where it was, so that it can be
//! read without them.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let is_superblock = |at: &u64| {
        view.le32(*at) == 0xa92b_4efc && view.le32(at + 4) == 1 // magic, major_version
    };
    let at = [0, 4096].into_iter().find(is_superblock)?;
    let (name, uuid) = (view.label::<32>(at + 32), view.uuid(at + 16));
    Some(container("linux_raid_member", name, uuid))
}
