//! `BitLocker`: the boot sector says so in place of the OEM id.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(3, b"-FVE-FS-")
        .then(|| container("BitLocker", Vec::new(), None))
}
