//! Which volume is meant: by name, or by what there is.

use crate::system_root::holds_system;
use crate::{Error, ErrorKind, Filesystem, Result};

use super::content::ContentClass;
use super::names::{is_called, is_named, parse};
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
        if is_called(volume, key, value)? {
            found.push(volume);
        }
    }
    leave_out_repeated_isos(&mut found)?;
    match found.as_slice() {
        [] => Err(not_found(disk, volumes, name)),
        [one] => Ok((*one).clone()),
        several => {
            let reason = format!("several volumes are called `{name}`: {}", list(several)?);
            Err(Error::new(ErrorKind::Ambiguous, reason).with_hint("name one by its first word"))
        }
    }
}

fn not_found(disk: &Disk, volumes: &[Volume], name: &str) -> Error {
    let names: Vec<&str> = volumes.iter().map(Volume::name).collect();
    let reason = format!(
        "there is no volume `{}`; there is: {}",
        name.escape_debug(),
        names.join(", ")
    );
    Error::new(ErrorKind::NotFound, reason).in_file(disk.path())
}

pub(super) fn filesystem(disk: &Disk) -> Result<Filesystem> {
    match meant(disk)? {
        Meant::Volume(volume) => volume.filesystem(),
        Meant::System(_, filesystem) => Ok(filesystem),
    }
}

pub(super) fn volume(disk: &Disk) -> Result<Volume> {
    match meant(disk)? {
        Meant::Volume(volume) | Meant::System(volume, _) => Ok(volume.clone()),
    }
}

/// What is meant when nothing is named.
enum Meant<'a> {
    Volume(&'a Volume),
    /// With its filesystem, which had to be opened to find that out.
    System(&'a Volume, Filesystem),
}

fn meant(disk: &Disk) -> Result<Meant<'_>> {
    let volumes = disk.volumes()?;
    let mut candidates = Vec::new();
    for volume in volumes {
        if is_candidate(disk, volume)? {
            candidates.push(volume);
        }
    }
    leave_out_repeated_isos(&mut candidates)?;
    tracing::debug!(candidates = candidates.len(), "volumes that could be meant");
    match candidates.as_slice() {
        [] => only_boot_or_nothing(disk, volumes).map(Meant::Volume),
        [one] => Ok(Meant::Volume(one)),
        several => with_system(disk, several),
    }
}

/// Whether a volume holds an ISO.
pub(super) fn is_iso(volume: &Volume) -> Result<bool> {
    let content = volume.content()?;
    Ok(content.is_some_and(|content| content.kind == "iso9660"))
}

/// An ISO that boots from a disk, too, is the whole disk; its partitions show it once more.
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

/// Whether a volume could be what the user means: a filesystem that is not an EFI system
/// partition, or a container that a system may be in. A logical volume or an array that does not open
/// is one, too: it may well be the root.
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

/// The one of several that holds an operating system.
fn with_system<'a>(disk: &Disk, candidates: &[&'a Volume]) -> Result<Meant<'a>> {
    let mut systems = Vec::new();
    for volume in candidates {
        if volume.problem().is_none() && volume.is_readable()? {
            let filesystem = match volume.filesystem() {
                // What would have opened it is not there.
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                opened => opened?,
            };
            // Damage shows when its files are read; here it only means that no system was found.
            if holds_system(filesystem.as_fs()).unwrap_or(false) {
                systems.push((*volume, filesystem));
            }
        }
    }
    let among = match systems.len() {
        1 => {
            let (volume, filesystem) = systems.remove(0);
            return Ok(Meant::System(volume, filesystem));
        }
        0 => candidates.to_vec(),
        _ => systems.iter().map(|(volume, _)| *volume).collect(),
    };
    let reason = format!("several filesystems could be meant: {}", list(&among)?);
    let hint = format!("name one, as in --volume {}", among[0].name());
    Err(Error::new(ErrorKind::Ambiguous, reason)
        .in_file(disk.path())
        .with_hint(hint))
}

/// With nothing else on the disk, an EFI system partition or the like is what is meant.
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
                return Ok(volume); // Opening it says what is wrong.
            }
            let reason = "holds no filesystem that is known";
            let hint = "see what there is with `diskfs info`; name a place with --offset";
            Err(Error::new(ErrorKind::NotFound, reason)
                .in_file(disk.path())
                .with_hint(hint))
        }
        several => {
            let reason = format!("several volumes could be meant: {}", list(several)?);
            let hint = format!("name one, as in --volume {}", several[0].name());
            Err(Error::new(ErrorKind::Ambiguous, reason)
                .in_file(disk.path())
                .with_hint(hint))
        }
    }
}

/// `p1 (ext4, 512 MiB, label "boot"), p2 (xfs, 9 GiB, not supported)`.
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
