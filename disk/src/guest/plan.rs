//! The plan of a system's mounts, and of the volumes that they need.

use diskfs_etc::fstab::Fstab;
use diskfs_etc::{crypttab, text};

use super::device::Devices;
use super::entry::MountEntry;
use super::sub_root::SubRoot;
use super::{gpt_auto, mount_unit, usr};
use crate::{Disk, Filesystem, Volume};

const MAX_BYTES: u64 = 1 << 20;

/// A mount entry, and the decision about it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlannedMount {
    /// The entry of the guest.
    pub entry: MountEntry,
    /// The decision about the entry.
    pub verdict: Verdict,
}

/// The decision about a mount entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Verdict {
    /// Mount a volume.
    Mount {
        /// The volume that is mounted.
        volume: Box<Volume>,
        /// The directory of the filesystem that is mounted, a subvolume of btrfs; empty for the
        /// root.
        dir: Vec<u8>,
    },
    /// Bind this directory of the tree at a second place.
    Bind(Vec<u8>),
    /// Don't mount the entry, for this reason.
    Skip(String),
}

/// Plans the mounts of a system that its files name, and its `/usr`. Parent directories come before
/// the directories below them.
pub(super) fn make(
    disk: &Disk,
    filesystem: &Filesystem,
    root: &Volume,
    sub_root: Option<&SubRoot>,
) -> Vec<PlannedMount> {
    let below = sub_root.map_or(&[][..], |found| found.root.as_slice());
    let mut entries = sub_root.map_or_else(Vec::new, |found| found.entries.clone());
    entries.extend(guest_entries(filesystem, below));
    entries.retain(|entry| !entry.is_swap());
    let text = read(filesystem, below, b"/etc/crypttab");
    let devices = Devices {
        disk,
        crypttab: crypttab::entries(&String::from_utf8_lossy(&text)).collect(),
    };
    let planned = entries.into_iter().filter_map(|entry| {
        let verdict = verdict(&devices, root, &entry)?;
        Some(PlannedMount { entry, verdict })
    });
    let mut planned: Vec<PlannedMount> = planned.collect();
    planned.extend(usr::find(disk, filesystem, root, below, &planned));
    planned.sort_by_key(|planned| depth(&planned.entry.at));
    planned
}

/// Adds the partitions that systemd mounts by their types, in the system whose tree is `seen` with
/// the mounts planned so far.
pub(super) fn add_partitions_by_type(
    disk: &Disk,
    seen: &Filesystem,
    planned: &mut Vec<PlannedMount>,
) {
    let devices = Devices {
        disk,
        crypttab: Vec::new(),
    };
    for entry in gpt_auto::entries(disk, seen, planned) {
        let mounted = devices
            .find(&entry.what)
            .and_then(|volume| mount(volume, &entry));
        planned.push(PlannedMount {
            verdict: mounted.unwrap_or_else(Verdict::Skip),
            entry,
        });
    }
    planned.sort_by_key(|planned| depth(&planned.entry.at));
}

/// Returns the entries of the guest's files. A unit takes precedence over a line of fstab for the
/// same mount point.
fn guest_entries(filesystem: &Filesystem, below: &[u8]) -> Vec<MountEntry> {
    let units = mount_unit::read(filesystem, below);
    let fstab = Fstab::new(text::decode(&read(filesystem, below, b"/etc/fstab")));
    let lines = fstab.entries();
    let mut entries: Vec<_> = lines
        .map(|(line, entry)| MountEntry::of_fstab(line, &entry))
        .collect();
    entries.retain(|line| units.iter().all(|unit| unit.at != line.at));
    entries.extend(units);
    entries
}

/// Returns the contents of a file, or no bytes if it can't be read.
fn read(filesystem: &Filesystem, below: &[u8], path: &[u8]) -> Vec<u8> {
    let path = [below, path].concat();
    let text = filesystem.read_at_most(&path, MAX_BYTES);
    text.unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot read a file");
        Vec::new()
    })
}

fn depth(path: &[u8]) -> usize {
    let names = path.split(|&byte| byte == b'/');
    names.filter(|name| !name.is_empty()).count()
}

/// Decides about an entry; `None` for the entry of the root itself.
fn verdict(devices: &Devices<'_>, root: &Volume, entry: &MountEntry) -> Option<Verdict> {
    if let Some(reason) = entry.no_device() {
        return Some(Verdict::Skip(reason));
    }
    if !entry.at.starts_with(b"/") {
        return Some(Verdict::Skip(
            "invalid mount point: expected an absolute path".to_owned(),
        ));
    }
    if entry.is_bind() {
        return Some(Verdict::Bind(entry.what.clone().into_bytes()));
    }
    let found = devices.find(&entry.what);
    if depth(&entry.at) > 0 {
        let mounted = found.and_then(|volume| mount(volume, entry));
        return Some(mounted.unwrap_or_else(Verdict::Skip));
    }
    match found {
        Ok(volume) if volume.name() != root.name() => {
            let (said, is) = (volume.name(), root.name());
            Some(Verdict::Skip(format!(
                "the entry names {said} as the root, but the system is on {is}"
            )))
        }
        _ => None,
    }
}

/// Returns the mount of a volume, or the reason why its subvolume can't be found.
fn mount(volume: Volume, entry: &MountEntry) -> Result<Verdict, String> {
    // If an entry has both, they name the same subvolume.
    let dir = match (entry.subvolume(), entry.subvolume_id()) {
        (Some(path), _) => path.as_bytes().to_vec(),
        (None, Some(id)) => subvolume(&volume, id)?,
        (None, None) => Vec::new(),
    };
    let volume = Box::new(volume);
    Ok(Verdict::Mount { volume, dir })
}

fn subvolume(volume: &Volume, id: u64) -> Result<Vec<u8>, String> {
    let filesystem = volume.filesystem().map_err(|error| error.to_string())?;
    let path = filesystem.as_fs().subvolume(Some(id));
    path.map_err(|error| format!("subvolid={id}: {error}"))
}
