//! NTFS: the boot sector's OEM id and serial number.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(3, b"NTFS    ").then(|| {
        let serial = view.le64(0x48);
        filesystem("ntfs", Vec::new(), Some(format!("{serial:016X}")))
    })
}
