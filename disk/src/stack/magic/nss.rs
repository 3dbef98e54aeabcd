//! NSS of `NetWare`: the superblock at 4 KiB.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 4096;
const POOL_ID: u64 = 0x15c;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(SB, b"SPB5")
        .then(|| filesystem("nss", Vec::new(), view.uuid(SB + POOL_ID)))
}
