//! The guest from the perspective of steps: its tree, facts about it, and the report of the current
//! step.

use std::cell::OnceCell;

use diskfs_vfs::Timestamp;

use super::stage::{EntryKind, Stage};
use super::volumes::{NewUuid, VolumeChanges, Volumes};
use super::{Secret, StepReport};
use diskfs_disk::guest::{OsRelease, windows_root};
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

/// The directory of the administrator's systemd units, and of the symlinks that enable units.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// The directories of systemd units, in search order.
pub(super) const UNIT_DIRS: [&str; 4] = [
    UNITS,
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// A guest that steps work on.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) stage: Stage,
    release: OnceCell<OsRelease>,
    is_windows: OnceCell<bool>,
    notes: Vec<String>,
    secrets: Vec<Secret>,
    uuids: Vec<NewUuid>,
    /// The volumes of the disk, if the disk is known and a step may change volumes.
    pub(super) volumes: Option<Volumes>,
    pub(super) volume_changes: VolumeChanges,
    /// The current time. Tests set a fixed one.
    pub(super) now: Timestamp,
    random: fn(&mut [u8]) -> Result<()>,
}

impl Guest {
    pub(super) fn new(guest: Filesystem) -> Self {
        Self {
            stage: Stage::new(guest),
            release: OnceCell::new(),
            is_windows: OnceCell::new(),
            notes: Vec::new(),
            secrets: Vec::new(),
            uuids: Vec::new(),
            volumes: None,
            volume_changes: VolumeChanges::default(),
            now: Timestamp::now(),
            random: kernel_random,
        }
    }

    /// Returns the guest with the volumes of its disk.
    pub(super) fn with_volumes(self, volumes: Option<Volumes>) -> Self {
        Self { volumes, ..self }
    }

    /// Returns a guest with a fixed time and with "random" bytes that are all 7.
    #[cfg(test)]
    pub(super) fn for_tests(guest: Filesystem) -> Self {
        Self {
            now: Timestamp {
                seconds: 1_700_000_000,
                nanoseconds: 0,
            },
            random: |bytes| {
                bytes.fill(7);
                Ok(())
            },
            ..Self::new(guest)
        }
    }

    /// Returns the guest's os-release data.
    pub(super) fn release(&self) -> &OsRelease {
        self.release
            .get_or_init(|| OsRelease::read(self.stage.guest()))
    }

    /// Returns true if the guest is a Windows system.
    pub(super) fn is_windows(&self) -> bool {
        *self.is_windows.get_or_init(|| {
            let guest = self.stage.guest();
            !guest.holds_system().unwrap_or(false) && windows_root(guest).is_some()
        })
    }

    /// Adds a note to the report of the step.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Reports a generated secret, which is not stored in clear text anywhere else.
    pub(super) fn report_secret(&mut self, of: impl Into<String>, secret: impl Into<String>) {
        self.secrets.push(Secret {
            of: of.into(),
            secret: secret.into(),
        });
    }

    /// Reports UUIDs of volumes that are replaced.
    pub(super) fn report_uuids(&mut self, uuids: Vec<NewUuid>) {
        self.uuids.extend(uuids);
    }

    /// Returns an error about the plan.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.stage.invalid(reason)
    }

    /// Returns random bytes that are suitable for keys.
    pub(super) fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        (self.random)(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns true if systemd is installed.
    pub(super) fn has_systemd(&self) -> Result<bool> {
        for dir in ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"] {
            if self.stage.exists(dir)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the path of a systemd unit.
    pub(super) fn unit(&self, name: &str) -> Result<Option<String>> {
        for dir in UNIT_DIRS {
            let path = format!("{dir}/{name}");
            if self.stage.link_entry(&path)?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns true if a target or another unit wants or requires the unit at boot. That covers
    /// what `systemctl is-enabled` checks, and symlinks of the vendor.
    pub(super) fn is_enabled(&self, unit: &str) -> Result<bool> {
        let masked = self.stage.link_entry(&format!("{UNITS}/{unit}"))?;
        let is_null = |kind| matches!(kind, EntryKind::Symlink(to) if to == "/dev/null");
        if masked.is_some_and(|entry| is_null(entry.kind)) {
            return Ok(false);
        }
        for dir in UNIT_DIRS {
            for name in self.stage.names(dir)? {
                let kind = name.rsplit_once('.').map(|(_, kind)| kind);
                let is_wants = matches!(kind, Some("wants" | "requires"));
                let link = format!("{dir}/{name}/{unit}");
                if is_wants && self.stage.link_entry(&link)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the report of the last step.
    pub(super) fn report(&mut self, step: &'static str) -> StepReport {
        StepReport {
            step,
            changed: self.stage.take_touched().into_iter().collect(),
            notes: std::mem::take(&mut self.notes),
            secrets: std::mem::take(&mut self.secrets),
            uuids: std::mem::take(&mut self.uuids),
        }
    }
}

fn kernel_random(bytes: &mut [u8]) -> Result<()> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let got = getrandom(rest, GetRandomFlags::empty()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot get random numbers: {error}"))
        })?;
        filled += got;
    }
    Ok(())
}
