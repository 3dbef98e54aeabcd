//! Physical volumes of LVM1: `struct pv_disk`.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if !view.has(0, b"HM") || !matches!(view.le16(2), 1 | 2) {
        return None;
    }
    let id = String::from_utf8(view.label::<32>(0x2c)).ok();
    let id = id.filter(|id| id.len() == 32);
    let uuid = id.map(|id| super::uuid::grouped(&id, &[6, 4, 4, 4, 4, 4, 6]));
    Some(container("LVM1_member", Vec::new(), uuid))
}
