//! `BitLocker`: the boot sector says so in place of the OEM id; on removable disks that of a FAT stays,
//! and a GUID tells it.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    const TO_GO: &[u8; 16] = b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";
    (view.has(3, b"-FVE-FS-") || view.has(3, b"MSWIN4.1") && view.has(424, TO_GO))
        .then(|| container("BitLocker", Vec::new(), None))
}
