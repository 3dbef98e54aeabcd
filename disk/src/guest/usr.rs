//! A `/usr` that is a filesystem of its own, and that fstab does not name.
//!
//! The initial RAM disk mounts it then: by `mount.usr=` of the kernel's arguments, or by its partition's type (the
//! Discoverable Partitions Specification; Container Linux has a type of its own). The arguments are the boot
//! loader's, so here the filesystem's own files tell it.

use super::entry::{MountEntry, Origin};
use super::gpt_auto::{is_empty, partition_of};
use super::plan::{Planned, Verdict};
use crate::{ContentClass, Disk, Filesystem, Volume};

const USR: &[u8] = b"/usr";

/// Types of partitions: x86-64, `AArch64`, Container Linux.
const TYPES: [&str; 3] = [
    "8484680c-9521-48c6-9c11-b0720656f69e",
    "b0e01050-ee5f-4390-949a-9101b17104e9",
    "5dfbf5f4-2848-4bac-aa5e-0d9a20b745a6",
];

/// Finds the `/usr` of the system whose root is the directory `below`, if that has none and nothing names one.
pub(super) fn find(
    disk: &Disk,
    filesystem: &Filesystem,
    root: &Volume,
    below: &[u8],
    planned: &[Planned],
) -> Option<Planned> {
    let is_known = planned.iter().any(|planned| planned.entry.at == USR);
    if is_known || !is_empty(filesystem, &[below, USR].concat()) {
        return None;
    }
    let (volume, what, origin) = by_type(disk).or_else(|| by_contents(disk, root))?;
    Some(Planned {
        entry: MountEntry {
            what,
            at: USR.to_vec(),
            kind: "auto".to_owned(),
            options: Vec::new(),
            origin,
        },
        verdict: Verdict::Mount {
            volume: Box::new(volume),
            dir: Vec::new(),
        },
    })
}

/// A volume, what it is called, and who says so.
type Found = (Volume, String, Origin);

fn by_type(disk: &Disk) -> Option<Found> {
    let uuid = TYPES.iter().find_map(|guid| partition_of(disk, guid))?;
    let what = format!("PARTUUID={uuid}");
    let volume = disk.volume(&what).ok()?;
    Some((volume, what, Origin::PartitionType))
}

/// Of several, as the two that are updated in turns, the first is taken.
fn by_contents(disk: &Disk, root: &Volume) -> Option<Found> {
    let volumes = disk.volumes().unwrap_or_default();
    let mut others = volumes.iter().filter(|volume| volume.name() != root.name());
    let found = others.find(|volume| {
        let is_filesystem = |volume: &Volume| {
            let content = volume.content().ok().flatten();
            content.is_some_and(|content| content.class == ContentClass::Filesystem)
        };
        volume.problem().is_none()
            && is_filesystem(volume)
            && volume.is_readable().unwrap_or(false)
            && volume.filesystem().is_ok_and(|other| other.holds_usr())
    })?;
    Some((found.clone(), found.name().to_owned(), Origin::Contents))
}
