//! The guest as steps see it: its tree, what it is, and where they tell what they did.

use std::cell::OnceCell;

use diskfs_vfs::Timestamp;

use super::stage::{Kind, Stage};
use super::volumes::{NewUuid, VolumeChanges, Volumes};
use super::{Secret, StepReport};
use diskfs_disk::guest::{OsRelease, windows_root};
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

/// Where the administrator's units of systemd are, and the symlinks that turn units on.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// Where units are, in the order that they are looked for.
pub(super) const UNIT_DIRS: [&str; 4] = [
    UNITS,
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// What steps work on.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) stage: Stage,
    release: OnceCell<OsRelease>,
    is_windows: OnceCell<bool>,
    notes: Vec<String>,
    secrets: Vec<Secret>,
    uuids: Vec<NewUuid>,
    /// The volumes of its disk, where that is known and a step may change them.
    pub(super) volumes: Option<Volumes>,
    pub(super) volume_changes: VolumeChanges,
    /// The present, which tests set.
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
            random: of_the_kernel,
        }
    }

    /// The same, on a disk whose volumes are these.
    pub(super) fn with_volumes(self, volumes: Option<Volumes>) -> Self {
        Self { volumes, ..self }
    }

    /// With a known present, and "random" bytes that are all 7.
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

    /// What the guest calls itself.
    pub(super) fn release(&self) -> &OsRelease {
        self.release
            .get_or_init(|| OsRelease::read(self.stage.guest()))
    }

    /// Whether it is a Windows.
    pub(super) fn is_windows(&self) -> bool {
        *self.is_windows.get_or_init(|| {
            let guest = self.stage.guest();
            !guest.holds_system().unwrap_or(false) && windows_root(guest).is_some()
        })
    }

    /// Tells whoever deploys something that he should know.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Tells him something that was made up, and that he can't know from elsewhere.
    pub(super) fn tell_secret(&mut self, of: impl Into<String>, secret: impl Into<String>) {
        self.secrets.push(Secret {
            of: of.into(),
            secret: secret.into(),
        });
    }

    /// Reports UUIDs of volumes that are replaced.
    pub(super) fn tell_uuids(&mut self, uuids: Vec<NewUuid>) {
        self.uuids.extend(uuids);
    }

    /// An error of the plan.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.stage.invalid(reason)
    }

    /// Random bytes that are good enough for keys.
    pub(super) fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        (self.random)(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether systemd starts it.
    pub(super) fn has_systemd(&self) -> Result<bool> {
        for dir in ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"] {
            if self.stage.exists(dir)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where systemd's unit of that name is.
    pub(super) fn unit(&self, name: &str) -> Result<Option<String>> {
        for dir in UNIT_DIRS {
            let path = format!("{dir}/{name}");
            if self.stage.link_entry(&path)?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Whether some target or other unit wants the unit when the guest starts: what `systemctl is-enabled` looks for, and
    /// what the vendor itself has wanted.
    pub(super) fn is_enabled(&self, unit: &str) -> Result<bool> {
        let masked = self.stage.link_entry(&format!("{UNITS}/{unit}"))?;
        let is_null = |kind| matches!(kind, Kind::Symlink(to) if to == "/dev/null");
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

    /// What the last step did.
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

fn of_the_kernel(bytes: &mut [u8]) -> Result<()> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let got = getrandom(rest, GetRandomFlags::empty())
            .map_err(|error| Error::new(ErrorKind::Io, format!("no random numbers: {error}")))?;
        filled += got;
    }
    Ok(())
}
