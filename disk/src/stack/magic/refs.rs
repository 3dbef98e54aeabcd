//! `ReFS`, recognised by its boot sector.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"\0\0\0ReFS\0")
        .then(|| filesystem("ReFS", Vec::new(), None))
}
