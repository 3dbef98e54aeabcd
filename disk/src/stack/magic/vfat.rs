//! FAT12, FAT16, FAT32 (Microsoft FAT specification, section 3). The type string alone proves
//! little, so the fields around it must also be valid.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// The limit on clusters of a FAT32 root directory that are searched; the label is nearly always
/// its first entry.
const MAX_CLUSTERS: usize = 32;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let is_32 = view.has(0x52, b"FAT32   ");
    let serial_at = match () {
        () if !is_sane(view) => return None,
        () if is_32 => 0x43,
        () if view.has(0x36, b"FAT1") || view.has(0x36, b"FAT  ") => 0x27,
        () => return None,
    };
    // Windows changes the label in the root directory but not the one in the boot sector.
    let label = if is_32 {
        label_along_clusters(view)
    } else {
        label_in(view, root_at(view), u64::from(view.le16(17))).ok()
    };
    let serial = super::uuid::dos_serial(view.le32(serial_at));
    Some(filesystem("vfat", label.unwrap_or_default(), serial))
}

fn is_sane(view: &View<'_>) -> bool {
    let sector_bytes = view.le16(11);
    view.has(510, b"\x55\xaa")
        && (512..=4096).contains(&sector_bytes)
        && sector_bytes.is_power_of_two()
        && view.u8(13).is_power_of_two() // sectors per cluster
        && view.le16(14) > 0 // reserved sectors
        && ((1..=2).contains(&view.u8(16)) || is_resizing(view)) // number of FATs
}

/// Returns true if a change of the size by diskfs was interrupted. No driver may use the
/// filesystem until the same change is repeated.
fn is_resizing(view: &View<'_>) -> bool {
    view.u8(16) == 0 && view.has(128, b"diskfs resizing\0")
}

/// Returns the start of the FATs.
fn tables_at(view: &View<'_>) -> u64 {
    u64::from(view.le16(14)) * u64::from(view.le16(11))
}

/// Returns the end of the FATs: the root directory, on FAT32 the clusters.
fn root_at(view: &View<'_>) -> u64 {
    let sectors = match view.le16(22) {
        0 => u64::from(view.le32(36)),
        sectors => u64::from(sectors),
    };
    tables_at(view) + u64::from(view.u8(16)) * sectors * u64::from(view.le16(11))
}

fn label_along_clusters(view: &View<'_>) -> Option<Vec<u8>> {
    let cluster_bytes = u64::from(view.u8(13)) * u64::from(view.le16(11));
    let mut cluster = view.le32(44) & 0x0fff_ffff;
    for _ in 0..MAX_CLUSTERS {
        let index = u64::from(cluster.checked_sub(2)?);
        let at = root_at(view) + index * cluster_bytes;
        match label_in(view, at, cluster_bytes / 32) {
            Ok(label) => return Some(label),
            Err(MissingLabel::HereOnly) => {}
            Err(MissingLabel::Everywhere) => return None,
        }
        cluster = view.le32(tables_at(view) + 4 * u64::from(cluster)) & 0x0fff_ffff;
    }
    None
}

/// The reason why a part of a directory has no label.
enum MissingLabel {
    HereOnly,
    Everywhere,
}

/// Returns the label among this number of entries at `at`.
fn label_in(view: &View<'_>, at: u64, entries: u64) -> Result<Vec<u8>, MissingLabel> {
    const VOLUME_ID: u8 = 0x08;
    const DIRECTORY: u8 = 0x10;
    const LONG_NAME: u8 = 0x0f;
    for entry in (0..entries).map(|n| at + 32 * n) {
        let attributes = view.u8(entry + 11);
        match view.u8(entry) {
            0 => return Err(MissingLabel::Everywhere),
            0xe5 => continue, // deleted
            _ if attributes & 0x3f == LONG_NAME => continue,
            _ => {}
        }
        let has_clusters = view.le16(entry + 20) != 0 || view.le16(entry + 26) != 0;
        if attributes & (VOLUME_ID | DIRECTORY) == VOLUME_ID && !has_clusters {
            let mut name: [u8; 11] = view.array(entry);
            if name[0] == 0x05 {
                name[0] = 0xe5; // which would be "deleted"
            }
            return Ok(name.trim_ascii_end().to_vec());
        }
    }
    Err(MissingLabel::HereOnly)
}
