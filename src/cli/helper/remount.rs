//! The option `remount` of mount(8).

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;
use diskfs::export::fuse::{self, Direction, Effect, Remount};

use super::{FAILED, MountArguments, MountOption, Refusal};

/// Changes the options of a mount that a remount can change.
///
/// mount(8) also passes the options of fstab(5) or of the mount table, among them those of
/// `diskfs mount`: these stay as they are.
pub(super) fn remount(given: &MountArguments, directory: &Path) -> Result<(), Refusal> {
    fuse::remount(directory, changes(given)).map_err(|error| {
        let hint = error.next_step().map(|hint| format!("; {hint}"));
        Refusal {
            code: FAILED,
            reason: format!("{error}{}", hint.unwrap_or_default()),
        }
    })
}

fn changes(given: &MountArguments) -> Remount {
    let mut changes = Remount::default();
    for (letter, direction) in [(b'r', Direction::ReadOnly), (b'w', Direction::ReadWrite)] {
        if given.has(letter) {
            changes.direction = Some(direction);
        }
    }
    for option in &given.options {
        add(&mut changes, option);
    }
    changes
}

fn add(changes: &mut Remount, option: &OsString) {
    let name = option.to_string_lossy();
    let Ok(option) = MountOption::from_str(&name, false) else {
        return;
    };
    match option {
        MountOption::Ro => changes.direction = Some(Direction::ReadOnly),
        MountOption::Rw => changes.direction = Some(Direction::ReadWrite),
        MountOption::Suid => changes.suid = Some(Effect::Allowed),
        MountOption::Nosuid => changes.suid = Some(Effect::Ignored),
        MountOption::Dev => changes.devices = Some(Effect::Allowed),
        MountOption::Nodev => changes.devices = Some(Effect::Ignored),
        MountOption::Exec => changes.execute = Some(Effect::Allowed),
        MountOption::Noexec => changes.execute = Some(Effect::Ignored),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_option_counts_and_others_stay() {
        let words = "mount.fuse.diskfs a.img /mnt -o rw,volume=p3,nosuid,remount,ro -t fuse.diskfs";
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let expected = Remount {
            direction: Some(Direction::ReadOnly),
            suid: Some(Effect::Ignored),
            ..Remount::default()
        };
        assert_eq!(changes(&MountArguments::parse(&words).unwrap()), expected);
    }
}
