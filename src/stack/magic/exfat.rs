//! exFAT (Microsoft, exFAT file system specification, 3.1).

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let serial = || super::uuid::dos_serial(view.le32(0x64)); // VolumeSerialNumber
    view.has(3, b"EXFAT   ") // FileSystemName
        .then(|| filesystem("exfat", Vec::new(), serial()))
}
