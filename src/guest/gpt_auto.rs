//! Partitions that systemd mounts by their type when fstab doesn't name them
//! (systemd-gpt-auto-generator(8), the Discoverable Partitions Specification).

use diskfs_volume::PartitionKind;

use super::entry::{MountEntry, Origin};
use crate::{Disk, Filesystem, Volume};

/// Types, and where partitions of them belong: the first of these that is an empty directory.
const TYPES: [(&str, &[&str]); 5] = [
    // XBOOTLDR before the EFI system partition: it takes /boot.
    ("bc13c2ff-59e6-4262-a352-b275fd6f7172", &["/boot"]),
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", &["/efi", "/boot"]),
    ("933ac7e1-2eb4-4f13-b844-0e14e2aef915", &["/home"]),
    ("3b8f8425-20e0-4f3b-907f-1a25a76f98e8", &["/srv"]),
    ("7ec6f557-3bc5-4aca-b293-16ef5df639d1", &["/var/tmp"]),
];

const GENERATOR: &str = "/usr/lib/systemd/system-generators/systemd-gpt-auto-generator";

/// Bit of the flags: don't mount it by its type.
const NO_AUTO: u32 = 63;

/// What is mounted beside `known`, in the system whose root is the directory `root`.
pub(super) fn entries(
    disk: &Disk,
    filesystem: &Filesystem,
    root: &[u8],
    known: &[MountEntry],
) -> Vec<MountEntry> {
    let has_generator = filesystem.exists([root, GENERATOR.as_bytes()].concat());
    if !has_generator.unwrap_or(false) {
        return Vec::new();
    }
    let volumes = disk.volumes().unwrap_or_default();
    let mut entries: Vec<MountEntry> = Vec::new();
    for (guid, places) in TYPES {
        let Some(uuid) = volumes.iter().find_map(|volume| partition_of(volume, guid)) else {
            continue;
        };
        let is_free = |place: &&&str| {
            let taken = known.iter().chain(&entries);
            let mut taken = taken.map(|entry| entry.at.as_slice());
            !taken.any(|at| at == place.as_bytes()) && is_empty(filesystem, root, place)
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

/// The partition's own UUID, when it is of that type on the first disk and may be mounted.
fn partition_of(volume: &Volume, guid: &str) -> Option<String> {
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

fn is_empty(filesystem: &Filesystem, root: &[u8], place: &str) -> bool {
    let entries = filesystem.read_dir([root, place.as_bytes()].concat());
    entries.is_ok_and(|entries| entries.is_empty())
}
