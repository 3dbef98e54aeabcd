//! exFAT (Microsoft, exFAT file system specification).

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// The limit on clusters of the root directory that are searched. `mkfs` and Windows write the
/// label as the first entry; other programs may write it after some files.
const MAX_CLUSTERS: usize = 32;
/// The limit on bytes read of a cluster, which can have 32 MiB.
const MAX_CLUSTER_BYTES: u64 = 64 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(3, b"EXFAT   ").then(|| {
        let serial = super::uuid::dos_serial(view.le32(100)); // VolumeSerialNumber
        filesystem("exfat", label(view).unwrap_or_default(), serial)
    })
}

/// Searches for a volume label entry along the clusters of the root directory.
fn label(view: &View<'_>) -> Option<Vec<u8>> {
    let (sector_shift, cluster_shift) = (u32::from(view.u8(108)), u32::from(view.u8(109)));
    if !(9..=12).contains(&sector_shift) || sector_shift + cluster_shift > 25 {
        return None; // The bounds of the specification.
    }
    let sectors = |at| u64::from(view.le32(at)) << sector_shift;
    let (fat, heap) = (sectors(80), sectors(88)); // FatOffset, ClusterHeapOffset
    let cluster_bytes = 1_u64 << (sector_shift + cluster_shift);
    let mut cluster = view.le32(96); // FirstClusterOfRootDirectory
    for _ in 0..MAX_CLUSTERS {
        let index = u64::from(cluster.checked_sub(2)?);
        let start = heap + index * cluster_bytes;
        for at in (start..start + cluster_bytes.min(MAX_CLUSTER_BYTES)).step_by(32) {
            match view.u8(at) {
                0 => return None, // The end of the directory.
                0x83 => return Some(text(view, at)),
                _ => {}
            }
        }
        cluster = view.le32(fat + 4 * u64::from(cluster));
    }
    None
}

/// Returns the text of `CharacterCount` and `VolumeLabel`.
fn text(view: &View<'_>, entry: u64) -> Vec<u8> {
    let units = usize::from(view.u8(entry + 1).min(11));
    view.utf16_le(entry + 2, 2 * units)
}
