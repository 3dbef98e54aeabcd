//! What a system mounts, and from which volumes.

use diskfs_etc::fstab::Fstab;
use diskfs_etc::{crypttab, text};

use super::device::Devices;
use super::entry::MountEntry;
use super::sub_root::SubRoot;
use super::{gpt_auto, mount_unit, usr};
use crate::{Disk, Filesystem, Volume};

const MAX_BYTES: u64 = 1 << 20;

/// An entry, and what becomes of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Planned {
    /// What the guest says.
    pub entry: MountEntry,
    /// What that comes to.
    pub verdict: Verdict,
}

/// What becomes of an entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Verdict {
    /// The volume is mounted.
    Mount {
        /// The volume.
        volume: Box<Volume>,
        /// The directory of its filesystem that is mounted, a subvolume of btrfs; empty for all of it.
        dir: Vec<u8>,
    },
    /// A directory of the tree is shown at a second place.
    Bind(Vec<u8>),
    /// It is not mounted; why.
    Skip(String),
}

/// Plans the mounts of a system that its files name, and its `/usr`: those of directories before those below them.
pub(super) fn make(
    disk: &Disk,
    filesystem: &Filesystem,
    root: &Volume,
    sub_root: Option<&SubRoot>,
) -> Vec<Planned> {
    let below = sub_root.map_or(&[][..], |found| found.root.as_slice());
    let mut entries = sub_root.map_or_else(Vec::new, |found| found.entries.clone());
    entries.extend(said(filesystem, below));
    entries.retain(|entry| !entry.is_swap());
    let text = read(filesystem, below, b"/etc/crypttab");
    let devices = Devices {
        disk,
        crypttab: crypttab::entries(&String::from_utf8_lossy(&text)).collect(),
    };
    let planned = entries.into_iter().filter_map(|entry| {
        let verdict = verdict(&devices, root, &entry)?;
        Some(Planned { entry, verdict })
    });
    let mut planned: Vec<Planned> = planned.collect();
    planned.extend(usr::find(disk, filesystem, root, below, &planned));
    planned.sort_by_key(|planned| depth(&planned.entry.at));
    planned
}

/// Adds the partitions that systemd mounts by their types, in the system whose tree is `seen` with what is planned
/// by now.
pub(super) fn add_partitions_by_type(disk: &Disk, seen: &Filesystem, planned: &mut Vec<Planned>) {
    let devices = Devices {
        disk,
        crypttab: Vec::new(),
    };
    for entry in gpt_auto::entries(disk, seen, planned) {
        let mounted = devices
            .find(&entry.what)
            .and_then(|volume| mount(volume, &entry));
        planned.push(Planned {
            verdict: mounted.unwrap_or_else(Verdict::Skip),
            entry,
        });
    }
    planned.sort_by_key(|planned| depth(&planned.entry.at));
}

/// Returns what the guest's files say. A unit goes before a line of fstab for the same place.
fn said(filesystem: &Filesystem, below: &[u8]) -> Vec<MountEntry> {
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

/// A file's contents; nothing when it can't be had.
fn read(filesystem: &Filesystem, below: &[u8], path: &[u8]) -> Vec<u8> {
    let path = [below, path].concat();
    let text = filesystem.read_at_most(&path, MAX_BYTES);
    text.unwrap_or_else(|error| {
        tracing::debug!(%error, "not read");
        Vec::new()
    })
}

fn depth(path: &[u8]) -> usize {
    let names = path.split(|&byte| byte == b'/');
    names.filter(|name| !name.is_empty()).count()
}

/// `None` for the root's own entry.
fn verdict(devices: &Devices<'_>, root: &Volume, entry: &MountEntry) -> Option<Verdict> {
    if let Some(reason) = entry.no_device() {
        return Some(Verdict::Skip(reason));
    }
    if !entry.at.starts_with(b"/") {
        return Some(Verdict::Skip(
            "its place is no path from the root".to_owned(),
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
                "it says that the root is {said}, and the system is on {is}"
            )))
        }
        _ => None,
    }
}

/// `Err` with the reason when the subvolume can't be found.
fn mount(volume: Volume, entry: &MountEntry) -> Result<Verdict, String> {
    // Who gives both means the same by them.
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
