//! Linux swap (`union swap_header`) and hibernation images in it. The magic number ends the first
//! page, whose size is that of the machine.

use super::found::swap;
use super::view::View;
use crate::stack::content::Content;

/// Recognises swap with pages of 4 and 8 KiB.
pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    [4 << 10, 8 << 10]
        .into_iter()
        .find_map(|page| of(view, page))
}

/// Recognises swap with larger pages, which few machines have.
pub(super) fn large_pages(view: &View<'_>) -> Option<Content> {
    let pages = [16 << 10, 32 << 10, 64 << 10];
    pages.into_iter().find_map(|page| of(view, page))
}

fn of(view: &View<'_>, page: u64) -> Option<Content> {
    let magic: [u8; 10] = view.array(page - 10);
    let is_suspended = [&b"S1SUSPEND"[..], b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"]
        .iter()
        .any(|suspended| magic.starts_with(suspended));
    let kind = match &magic {
        _ if is_suspended => "swsuspend",
        b"SWAP-SPACE" => return Some(swap("swap", Vec::new(), None)), // without a header
        b"SWAPSPACE2" => "swap",
        _ => return None,
    };
    // The version, in the byte order of the machine, and the number of the last page.
    let is_header = matches!(view.le32(1024), 1 | 0x0100_0000) && view.le32(1028) != 0;
    is_header.then(|| swap(kind, view.label::<16>(1052), view.uuid(1036)))
}

/// Recognises `TuxOnIce`, which has its own magic number at the start and keeps the header.
pub(super) fn tux_on_ice(view: &View<'_>) -> Option<Content> {
    view.has(0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c")
        .then(|| swap("swsuspend", view.label::<16>(1052), view.uuid(1036)))
}
