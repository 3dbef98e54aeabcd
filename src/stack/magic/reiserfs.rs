//! `ReiserFS`: `struct reiserfs_super_block` at 64 KiB, of each version since 3.5.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 64 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    [&b"ReIsErFs"[..], b"ReIsEr2Fs", b"ReIsEr3Fs"]
        .iter()
        .any(|magic| view.has(SB + 52, magic))
        .then(|| filesystem("reiserfs", view.label::<16>(SB + 100), view.uuid(SB + 84)))
}
