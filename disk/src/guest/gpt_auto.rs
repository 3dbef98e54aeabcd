//! Partitions that systemd mounts by their type if fstab doesn't name them
//! (systemd-gpt-auto-generator(8), the Discoverable Partitions Specification).

use diskfs_volume::PartitionKind;

use super::entry::{MountEntry, Origin};
use super::plan::PlannedMount;
use crate::{Disk, Filesystem, Volume};

/// Partition types, and the mount points of each: the first one that is an empty directory is used.
const TYPES: [(&str, &[&str]); 5] = [
    // XBOOTLDR comes before the EFI system partition because it has priority for /boot.
    ("bc13c2ff-59e6-4262-a352-b275fd6f7172", &["/boot"]),
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", &["/efi", "/boot"]),
    ("933ac7e1-2eb4-4f13-b844-0e14e2aef915", &["/home"]),
    ("3b8f8425-20e0-4f3b-907f-1a25a76f98e8", &["/srv"]),
    ("7ec6f557-3bc5-4aca-b293-16ef5df639d1", &["/var/tmp"]),
];

const GENERATOR: &str = "/usr/lib/systemd/system-generators/systemd-gpt-auto-generator";

/// The bit of the partition flags that forbids mounting by type.
const NO_AUTO: u32 = 63;

/// Returns the mounts by type that are added to `planned`, in the system whose tree is `seen`.
pub(super) fn entries(disk: &Disk, seen: &Filesystem, planned: &[PlannedMount]) -> Vec<MountEntry> {
    if !seen.exists(GENERATOR).unwrap_or(false) {
        return Vec::new();
    }
    let mut entries: Vec<MountEntry> = Vec::new();
    for (guid, places) in TYPES {
        let Some(uuid) = partition_of(disk, guid) else {
            continue;
        };
        let is_free = |place: &&&str| {
            let known = planned.iter().map(|planned| &planned.entry);
            let mut taken = known.chain(&entries).map(|entry| entry.at.as_slice());
            !taken.any(|at| at == place.as_bytes()) && is_empty(seen, place.as_bytes())
        };
        if let Some(place) = places.iter().find(is_free) {
            entries.push(MountEntry {
                what: format!("PARTUUID={uuid}"),
                at: place.as_bytes().to_vec(),
                kind: "auto".to_owned(),
                options: Vec::new(),
                origin: Origin::PartitionType,
            });
        }
    }
    entries
}

/// Returns the UUID of the first partition of a type on the first disk that may be mounted by its
/// type.
pub(super) fn partition_of(disk: &Disk, guid: &str) -> Option<String> {
    let volumes = disk.volumes().unwrap_or_default();
    volumes.iter().find_map(|volume| uuid_if(volume, guid))
}

/// Returns the UUID of a partition if it has that type, is on the first disk, and may be mounted by
/// its type.
fn uuid_if(volume: &Volume, guid: &str) -> Option<String> {
    let entry = volume.entry().filter(|_| volume.disk_index() == Some(0))?;
    let PartitionKind::Gpt {
        type_guid,
        attributes,
        ..
    } = &entry.kind
    else {
        return None;
    };
    let is_meant = type_guid.to_string().eq_ignore_ascii_case(guid);
    let is_off = attributes.0.wrapping_shr(NO_AUTO) & 1 == 1;
    entry.uuid().filter(|_| is_meant && !is_off)
}

/// Returns true if a path is an empty directory.
pub(super) fn is_empty(filesystem: &Filesystem, path: &[u8]) -> bool {
    let entries = filesystem.read_dir(path);
    entries.is_ok_and(|entries| entries.is_empty())
}
