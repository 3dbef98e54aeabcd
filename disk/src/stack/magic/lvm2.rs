//! Physical volumes of LVM2: the label is in one of the first four sectors (`label_header` and
//! `pv_header` in its source).

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let sector = (0..4)
        .map(|n| n * 512)
        .find(|at| view.has(*at, b"LABELONE") && view.has(at + 24, b"LVM2 001"))?;
    let id = String::from_utf8(view.label::<32>(sector + 32)).ok();
    let id = id.filter(|id| id.len() == 32);
    // The groups are those that the LVM tools print.
    let uuid = id.map(|id| super::uuid::grouped(&id, &[6, 4, 4, 4, 4, 4, 6]));
    Some(container("LVM2_member", Vec::new(), uuid))
}
