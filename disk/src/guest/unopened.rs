//! Volumes that may hold a system and can't be read.

use super::is_foreign;
use crate::{ContentClass, Disk, Error, ErrorKind, Result, Volume};

/// The largest number of volumes that a message names.
const MAX_NAMED: usize = 8;

/// A volume that may hold the root of a system and can't be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unopened {
    /// The volume's name.
    pub volume: String,
    /// The kind of its contents, as `blkid` names it, if known.
    pub kind: Option<&'static str>,
    /// The error of opening it.
    pub error: Error,
}

/// Returns the volumes that may hold the root of a system and can't be read: a kind without a
/// driver, an encrypted volume without a key, a logical volume with a missing part, damage.
///
/// # Errors
/// As [`Disk::volumes`].
pub fn unopened(disk: &Disk) -> Result<Vec<Unopened>> {
    let mut found = Vec::new();
    for volume in disk.volumes()? {
        if volume.is_unlocked() || disk.is_member(volume)? {
            continue;
        }
        if let Err(error) = open(volume) {
            let content = volume.content().ok().flatten();
            found.push(Unopened {
                volume: volume.name().to_owned(),
                kind: content.map(|content| content.kind),
                error,
            });
        }
    }
    Ok(found)
}

/// Opens a volume, and fails if it may hold a root and can't be read.
fn open(volume: &Volume) -> Result<()> {
    if volume.problem().is_none() {
        let Some(content) = volume.content()? else {
            return Ok(());
        };
        let is_other = is_foreign(content.kind) && content.kind != "ntfs";
        if is_other || content.class == ContentClass::Swap {
            return Ok(());
        }
    }
    volume.filesystem()?.holds_system().map(|_| ())
}

/// Returns the error for a machine without a readable operating system. It names each volume that
/// may hold one, and has the error kind of the first of them; `NotFound` if there is no such
/// volume.
pub fn no_system(disk: &Disk) -> Error {
    let found = match unopened(disk) {
        Ok(found) => found,
        Err(error) => return error,
    };
    let text = "no operating system found";
    let error = match found.first() {
        None => {
            let hint = "list the volumes with `diskfs info` and choose one with --volume";
            Error::new(ErrorKind::NotFound, text).with_hint(hint)
        }
        Some(first) => {
            let mut reasons: Vec<String> = found.iter().take(MAX_NAMED).map(reason).collect();
            if let Some(more) = found.len().checked_sub(MAX_NAMED).filter(|&more| more > 0) {
                reasons.push(format!("{more} more cannot be read"));
            }
            let reason = format!("{text}; {}", reasons.join("; "));
            let error = Error::new(first.error.kind(), reason);
            match first.error.next_step() {
                Some(step) => error.with_hint(step),
                None => error,
            }
        }
    };
    error.in_file(disk.path())
}

/// Returns the reason for a message: `p2 (btrfs) cannot be read: volume p2 holds btrfs, which is
/// not supported`.
fn reason(unopened: &Unopened) -> String {
    let kind = unopened.kind.map(|kind| format!(" ({kind})"));
    let place = unopened.error.offset();
    let place = place.map(|offset| format!(" (byte {offset:#x})"));
    format!(
        "{}{} cannot be read: {}{}",
        unopened.volume,
        kind.unwrap_or_default(),
        unopened.error.reason(),
        place.unwrap_or_default()
    )
}
