//! `ReiserFS` of each version (`struct reiserfs_super_block`) and `Reiser4` (`struct
//! reiser4_master_sb`): at 64 KiB, the oldest version at 8 KiB.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 64 << 10;
const OLD_SB: u64 = 8 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if view.has(SB + 52, b"ReIsEr2Fs") || view.has(SB + 52, b"ReIsEr3Fs") {
        let (label, uuid) = (view.label::<16>(SB + 100), view.uuid(SB + 84));
        return Some(filesystem("reiserfs", label, uuid));
    }
    // Version 3.5 has neither label nor UUID.
    [SB + 52, OLD_SB + 52, OLD_SB + 20]
        .into_iter()
        .any(|at| view.has(at, b"ReIsErFs"))
        .then(|| filesystem("reiserfs", Vec::new(), None))
}

pub(super) fn reiser4(view: &View<'_>) -> Option<Content> {
    view.has(SB, b"ReIsEr4")
        .then(|| filesystem("reiser4", view.label::<16>(SB + 36), view.uuid(SB + 20)))
}
