//! `FileVault` 2: the volume header of Apple's Core Storage (Choudary, Groebert, Metz: "Infiltrate
//! the Vault", 2012).

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    const PHYSICAL_VOLUME: u16 = 0x10;
    let is_header = view.has(88, b"CS") && view.le16(8) == 1; // version
    (is_header && view.le16(10) == PHYSICAL_VOLUME)
        .then(|| container("cs_fvault2", Vec::new(), view.uuid(304)))
}
