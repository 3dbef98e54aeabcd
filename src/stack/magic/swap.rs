//! Linux swap (`union swap_header`): the magic ends the first page, which is 4 KiB but on few
//! machines.

use super::found::swap;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    (view.has(4086, b"SWAPSPACE2") || view.has(4086, b"SWAP-SPACE"))
        .then(|| swap("swap", view.label::<16>(1052), view.uuid(1036)))
}
