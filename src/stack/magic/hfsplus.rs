//! HFS Plus (Apple TN1150): `H+` or `HX` at 1024.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    (view.has(1024, b"H+\0\x04") || view.has(1024, b"HX\0\x05"))
        .then(|| filesystem("hfsplus", Vec::new(), None))
}
