//! FAT12, FAT16, FAT32 (Microsoft FAT specification, section 3). The type string alone proves
//! little, so the numbers beside it must make sense.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let sector_bytes = view.le16(11);
    let (cluster_sectors, fats) = (view.u8(13), view.u8(16));
    let sane = view.has(510, b"\x55\xaa")
        && (512..=4096).contains(&sector_bytes)
        && sector_bytes.is_power_of_two()
        && cluster_sectors.is_power_of_two()
        && view.le16(14) > 0
        && (1..=2).contains(&fats);
    let (serial_at, label_at) = match () {
        () if !sane => return None,
        () if view.has(0x52, b"FAT32   ") => (0x43, 0x47),
        () if view.has(0x36, b"FAT1") || view.has(0x36, b"FAT  ") => (0x27, 0x2b),
        () => return None,
    };
    let label = Some(view.label::<11>(label_at)).filter(|label| label != b"NO NAME");
    let serial = super::uuid::dos_serial(view.le32(serial_at));
    Some(filesystem("vfat", label.unwrap_or_default(), serial))
}
