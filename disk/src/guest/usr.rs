//! A `/usr` on a filesystem of its own that fstab does not name.
//!
//! The initial RAM disk mounts such a `/usr`: by `mount.usr=` of the kernel's arguments, or by the
//! type of its partition (the Discoverable Partitions Specification; Container Linux has a type of
//! its own). The arguments are in the configuration of the boot loader, so this module identifies
//! the filesystem by its files instead.

use super::entry::{MountEntry, Origin};
use super::gpt_auto::{is_empty, partition_of};
use super::plan::{PlannedMount, Verdict};
use crate::{ContentClass, Disk, Filesystem, Volume};

const USR: &[u8] = b"/usr";

/// Partition types of `/usr`: x86-64, `AArch64`, Container Linux.
const TYPES: [&str; 3] = [
    "8484680c-9521-48c6-9c11-b0720656f69e",
    "b0e01050-ee5f-4390-949a-9101b17104e9",
    "5dfbf5f4-2848-4bac-aa5e-0d9a20b745a6",
];

/// Returns the `/usr` of the system whose root is the directory `below`, if the root has none and
/// no entry names one.
pub(super) fn find(
    disk: &Disk,
    filesystem: &Filesystem,
    root: &Volume,
    below: &[u8],
    planned: &[PlannedMount],
) -> Option<PlannedMount> {
    let is_known = planned.iter().any(|planned| planned.entry.at == USR);
    if is_known || !is_empty(filesystem, &[below, USR].concat()) {
        return None;
    }
    let (volume, what, origin) = by_type(disk).or_else(|| by_contents(disk, root))?;
    Some(PlannedMount {
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

/// A volume, its device name, and the source of the entry.
type UsrVolume = (Volume, String, Origin);

fn by_type(disk: &Disk) -> Option<UsrVolume> {
    let uuid = TYPES.iter().find_map(|guid| partition_of(disk, guid))?;
    let what = format!("PARTUUID={uuid}");
    let volume = disk.volume(&what).ok()?;
    Some((volume, what, Origin::PartitionType))
}

/// Returns the first volume whose files are those of a `/usr`. Systems with two of them update them
/// alternately; the first is used.
fn by_contents(disk: &Disk, root: &Volume) -> Option<UsrVolume> {
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
