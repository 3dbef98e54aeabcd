//! What of a machine's disks is seen where, and why.

use super::System;
use super::entry::Origin;
use super::plan::Verdict;
use super::tree::{Purpose, reason};
use crate::{Content, Disk, Result};

/// What a system mounts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SystemReport {
    /// What it calls itself.
    pub name: String,
    /// The volume with its root.
    pub root: String,
    /// Its mounts in their order, without the root.
    pub mounts: Vec<MountReport>,
}

/// One mount of a system, or one that it can't have here.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MountReport {
    /// The directory.
    pub at: Vec<u8>,
    /// What the guest calls the device, or the directory that is bound.
    pub what: String,
    /// The volume that this is.
    pub volume: Option<String>,
    /// Who says so.
    pub origin: Origin,
    /// Why it is not there; `None` when it is.
    pub problem: Option<String>,
}

/// A volume that no system has mounted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VolumeUse {
    /// Its name.
    pub volume: String,
    /// What it holds, as `blkid` calls it.
    pub kind: Option<&'static str>,
    /// Why it is not there.
    pub reason: String,
}

impl System {
    /// Opens all that it mounts, and tells how that goes.
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

/// The volumes that none of these has mounted, and why.
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
            Ok(_) if disk.is_member(volume)? => "a part of what is listed beside it".to_owned(),
            Ok(_) if volume.is_unlocked() => format!("what is inside is {}/luks", volume.name()),
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
        None => "holds nothing that is known".to_owned(),
        Some(content) => match content.class {
            crate::ContentClass::Swap => "swap area".to_owned(),
            crate::ContentClass::Container => "needs a key, or members that are missing".to_owned(),
            crate::ContentClass::Filesystem => "no system mounts it".to_owned(),
        },
    }
}
