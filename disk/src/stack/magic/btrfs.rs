//! btrfs (on-disk format, "Superblock"): the first superblock at 64 KiB.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 64 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(SB + 0x40, b"_BHRfS_M")
        .then(|| filesystem("btrfs", view.label::<256>(SB + 0x12b), view.uuid(SB + 0x20)))
}
