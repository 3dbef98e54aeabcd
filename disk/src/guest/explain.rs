//! A report of where each volume of a machine is mounted, and why.

use super::System;
use super::entry::Origin;
use super::plan::Verdict;
use super::tree::{Purpose, reason};
use crate::{Content, Disk, Result};

/// A system and its mounts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SystemReport {
    /// The name of the system.
    pub name: String,
    /// The volume of the root filesystem.
    pub root: String,
    /// The mounts, in the order in which they are made, without the root.
    pub mounts: Vec<MountReport>,
}

/// A mount of a system, including one that failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MountReport {
    /// The mount point.
    pub at: Vec<u8>,
    /// The device as the guest names it, or the source directory of a bind mount.
    pub what: String,
    /// The volume that the device is.
    pub volume: Option<String>,
    /// The source of the mount entry.
    pub origin: Origin,
    /// The reason why the mount is missing; `None` if it is present.
    pub problem: Option<String>,
}

/// A volume that no system mounts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VolumeUse {
    /// The name of the volume.
    pub volume: String,
    /// The kind of its contents, as `blkid` names it.
    pub kind: Option<&'static str>,
    /// The reason why no system mounts it.
    pub reason: String,
}

impl System {
    /// Opens every filesystem that the system mounts, and reports the outcome of each.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem).
    pub fn explain(&self) -> Result<SystemReport> {
        let (tree, outcomes) = self.tree(Purpose::Reading)?;
        let mounts = self.planned.iter().zip(outcomes).map(|(planned, outcome)| {
            let seen = outcome.and_then(|mount| tree.check(mount).map_err(|e| reason(&e)));
            let problem = seen.err();
            let volume = match &planned.verdict {
                Verdict::Mount { volume, .. } => Some(volume.name().to_owned()),
                Verdict::Bind(_) | Verdict::Skip(_) => None,
            };
            MountReport {
                at: planned.entry.at.clone(),
                what: planned.entry.what.clone(),
                volume,
                origin: planned.entry.origin.clone(),
                problem,
            }
        });
        Ok(SystemReport {
            name: self.name().to_owned(),
            root: self.volume.name().to_owned(),
            mounts: mounts.collect(),
        })
    }
}

/// Returns the volumes that none of these systems mounts, with the reasons.
///
/// # Errors
/// As [`Disk::volumes`].
pub fn unused_volumes(disk: &Disk, systems: &[SystemReport]) -> Result<Vec<VolumeUse>> {
    let is_used = |name: &str| {
        systems.iter().any(|system| {
            let mut mounts = system.mounts.iter();
            system.root == name || mounts.any(|mount| mount.volume.as_deref() == Some(name))
        })
    };
    let unopened = super::unopened(disk)?;
    let mut unused = Vec::new();
    for volume in disk.volumes()? {
        if is_used(volume.name()) {
            continue;
        }
        let content = match volume.problem() {
            Some(problem) => Err(problem),
            None => volume.content().map_err(|error| error.to_string()),
        };
        let kind = content
            .as_ref()
            .ok()
            .and_then(|found| found.map(|content| content.kind));
        let reason = match content {
            Err(problem) => problem,
            Ok(_) if disk.is_member(volume)? => "member of an array or a volume group".to_owned(),
            Ok(_) if volume.is_unlocked() => {
                format!("encrypted; unlocked as {}/luks", volume.name())
            }
            Ok(content) => {
                let mut failed = unopened.iter().filter(|it| it.volume == volume.name());
                let failed = failed.next().map(|it| it.error.reason());
                failed.unwrap_or_else(|| why_unused(content))
            }
        };
        unused.push(VolumeUse {
            volume: volume.name().to_owned(),
            kind,
            reason,
        });
    }
    Ok(unused)
}

fn why_unused(content: Option<&Content>) -> String {
    match content {
        None => "no known content".to_owned(),
        Some(content) => match content.class {
            crate::ContentClass::Swap => "swap area".to_owned(),
            crate::ContentClass::Container => "needs a key, or missing members".to_owned(),
            crate::ContentClass::Filesystem => "no system mounts it".to_owned(),
        },
    }
}
