//! HPFS of OS/2: superblock and spare block at 8 KiB; label and serial number are in the boot
//! sector.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if view.le32(8192) != 0xf995_e849 || view.le32(8704) != 0xf991_1849 {
        return None;
    }
    let has_boot_sector = view.has(510, b"\x55\xaa") && view.u8(0x26) == 0x28;
    let boot_sector = || {
        (
            view.label::<11>(0x2b),
            super::uuid::dos_serial(view.le32(0x27)),
        )
    };
    let (label, uuid) = has_boot_sector.then(boot_sector).unwrap_or_default();
    Some(filesystem("hpfs", label, uuid))
}
