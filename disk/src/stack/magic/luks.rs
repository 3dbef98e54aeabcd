//! LUKS1 and LUKS2 (LUKS on-disk format, "PHDR layout"; LUKS2, "Binary header").

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if !view.has(0, b"LUKS\xba\xbe") {
        return None;
    }
    let label = match view.be16(6) {
        2 => view.label::<48>(24),
        _ => Vec::new(),
    };
    let uuid = String::from_utf8(view.label::<40>(168)).ok();
    let uuid = uuid.filter(|uuid| !uuid.is_empty());
    Some(container("crypto_LUKS", label, uuid))
}
