//! Ceph's `BlueStore`: the label of a device, which is text.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"bluestore block device")
        .then(|| container("ceph_bluestore", Vec::new(), None))
}
