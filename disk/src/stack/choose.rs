//! The choice of a volume: by name, or by content if none is named.

use crate::system_root::holds_system;
use crate::{Error, ErrorKind, Filesystem, Result};

use super::content::ContentClass;
use super::names::{has_identity, is_named, parse};
use super::{Disk, Volume};

pub(super) fn by_name(disk: &Disk, name: &str) -> Result<Volume> {
    if let Some(offset) = name
        .strip_prefix('@')
        .and_then(|digits| digits.parse().ok())
    {
        return disk.volume_at(offset);
    }
    let volumes = disk.volumes()?;
    if let Some(volume) = volumes.iter().find(|volume| is_named(volume, name)) {
        return Ok(volume.clone());
    }
    if name == "disk" {
        return Ok(disk.whole());
    }
    let (key, value) = parse(name);
    let mut found = Vec::new();
    for volume in volumes {
        if has_identity(volume, key, value)? {
            found.push(volume);
        }
    }
    leave_out_repeated_isos(&mut found)?;
    match found.as_slice() {
        [] => Err(not_found(disk, volumes, name)),
        [one] => Ok((*one).clone()),
        several => {
            let reason = format!("several volumes match `{name}`: {}", list(several)?);
            Err(Error::new(ErrorKind::Ambiguous, reason)
                .with_hint("use the name at the start of an entry"))
        }
    }
}

fn not_found(disk: &Disk, volumes: &[Volume], name: &str) -> Error {
    let names: Vec<&str> = volumes.iter().map(Volume::name).collect();
    let reason = format!(
        "no such volume: `{}`; available: {}",
        name.escape_debug(),
        names.join(", ")
    );
    Error::new(ErrorKind::NotFound, reason).in_file(disk.path())
}

pub(super) fn filesystem(disk: &Disk) -> Result<Filesystem> {
    match choose(disk)? {
        Choice::Volume(volume) => volume.filesystem(),
        Choice::System(_, filesystem) => Ok(filesystem),
    }
}

pub(super) fn volume(disk: &Disk) -> Result<Volume> {
    match choose(disk)? {
        Choice::Volume(volume) | Choice::System(volume, _) => Ok(volume.clone()),
    }
}

/// The volume to use if none is named.
enum Choice<'a> {
    Volume(&'a Volume),
    /// The volume, with its filesystem, which had to be opened to recognise the system.
    System(&'a Volume, Filesystem),
}

fn choose(disk: &Disk) -> Result<Choice<'_>> {
    let volumes = disk.volumes()?;
    let mut candidates = Vec::new();
    for volume in volumes {
        if is_candidate(disk, volume)? {
            candidates.push(volume);
        }
    }
    leave_out_repeated_isos(&mut candidates)?;
    tracing::debug!(candidates = candidates.len(), "candidate volumes");
    match candidates.as_slice() {
        [] => only_boot_or_nothing(disk, volumes).map(Choice::Volume),
        [one] => Ok(Choice::Volume(one)),
        several => with_system(disk, several),
    }
}

/// Returns true if a volume holds an ISO.
pub(super) fn is_iso(volume: &Volume) -> Result<bool> {
    let content = volume.content()?;
    Ok(content.is_some_and(|content| content.kind == "iso9660"))
}

/// Removes the partitions that repeat an ISO: one that also boots from a disk is the whole disk,
/// and its partitions show it again.
fn leave_out_repeated_isos(volumes: &mut Vec<&Volume>) -> Result<()> {
    let mut kept = Vec::with_capacity(volumes.len());
    for volume in volumes.iter() {
        let repeats =
            |whole: &&Volume| whole.is_whole() && whole.disk_index() == volume.disk_index();
        let is_part = volume.entry().is_some() && volumes.iter().any(repeats);
        if !is_part || !is_iso(volume)? {
            kept.push(*volume);
        }
    }
    *volumes = kept;
    Ok(())
}

/// Returns true for a candidate: a filesystem that is not an EFI system partition, or a container
/// that may hold a system. A logical volume or an array that can't be opened is also a candidate,
/// because it may be the root.
fn is_candidate(disk: &Disk, volume: &Volume) -> Result<bool> {
    if volume.problem().is_some() {
        return Ok(volume.logical().is_some() || volume.array().is_some());
    }
    if volume.is_unlocked() || disk.is_member(volume)? {
        return Ok(false);
    }
    let boot = volume
        .entry()
        .is_some_and(|entry| entry.type_name().contains("EFI"));
    Ok(volume
        .content()?
        .is_some_and(|content| !boot && content.class != ContentClass::Swap))
}

/// Returns the only one of several candidates that holds an operating system.
fn with_system<'a>(disk: &Disk, candidates: &[&'a Volume]) -> Result<Choice<'a>> {
    let mut systems = Vec::new();
    for volume in candidates {
        if volume.problem().is_none() && volume.is_readable()? {
            let filesystem = match volume.filesystem() {
                // The fallback that would open this filesystem is unavailable.
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                opened => opened?,
            };
            // A damaged filesystem reports its errors when its files are read; here damage only
            // means that no system was found.
            if holds_system(filesystem.as_fs()).unwrap_or(false) {
                systems.push((*volume, filesystem));
            }
        }
    }
    let among = match systems.len() {
        1 => {
            let (volume, filesystem) = systems.remove(0);
            return Ok(Choice::System(volume, filesystem));
        }
        0 => candidates.to_vec(),
        _ => systems.iter().map(|(volume, _)| *volume).collect(),
    };
    let reason = format!("several filesystems found: {}", list(&among)?);
    let hint = format!("choose one, for example --volume {}", among[0].name());
    Err(Error::new(ErrorKind::Ambiguous, reason)
        .in_file(disk.path())
        .with_hint(hint))
}

/// Returns the only volume with known content when there is no candidate, for example an EFI system
/// partition.
fn only_boot_or_nothing<'a>(disk: &Disk, volumes: &'a [Volume]) -> Result<&'a Volume> {
    let mut known = Vec::new();
    for volume in volumes {
        if volume.problem().is_none() && volume.content()?.is_some() {
            known.push(volume);
        }
    }
    match known.as_slice() {
        [one] => Ok(one),
        [] => {
            if let Some(volume) = volumes.iter().find(|v| v.problem().is_some()) {
                return Ok(volume); // Opening it reports the problem.
            }
            let reason = "no known filesystem found";
            let hint = "list the volumes with `diskfs info`, or use --offset BYTES";
            Err(Error::new(ErrorKind::NotFound, reason)
                .in_file(disk.path())
                .with_hint(hint))
        }
        several => {
            let reason = format!("several volumes found: {}", list(several)?);
            let hint = format!("choose one, for example --volume {}", several[0].name());
            Err(Error::new(ErrorKind::Ambiguous, reason)
                .in_file(disk.path())
                .with_hint(hint))
        }
    }
}

/// Returns a list for a message: `p1 (ext4, 512 MiB, label "boot"), p2 (xfs, 9216 MiB, not
/// supported)`.
fn list(volumes: &[&Volume]) -> Result<String> {
    let mut parts = Vec::new();
    for volume in volumes {
        let mut facts = Vec::new();
        if let Some(problem) = volume.problem() {
            facts.push(problem);
        } else if let Some(content) = volume.content()? {
            facts.push(content.kind.to_owned());
            facts.push(format!("{} MiB", volume.size_bytes() >> 20));
            facts.extend(content.label().map(|label| format!("label {label:?}")));
            if !volume.is_readable()? {
                facts.push("not supported".to_owned());
            }
        }
        parts.push(format!("{} ({})", volume.name(), facts.join(", ")));
    }
    Ok(parts.join(", "))
}
