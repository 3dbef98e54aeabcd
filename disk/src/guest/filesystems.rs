//! The filesystems that a system mounts, and how full they are.

use serde::Serialize;

use super::System;
use super::plan::Verdict;
use crate::{Result, Volume};
use diskfs_vfs::Statistics;

/// A filesystem that a system mounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MountedFilesystem {
    /// The directory.
    pub path: String,
    /// The volume, by its name here.
    pub volume: String,
    /// What it holds, as `blkid` calls it: `ext4`.
    pub filesystem: String,
    /// Its label; empty without one.
    pub label: String,
    /// Its UUID or serial number.
    pub uuid: Option<String>,
    /// Its size in bytes, as df(1) has it.
    pub size_bytes: Option<u64>,
    /// What is used of it.
    pub used_bytes: Option<u64>,
    /// What may be written to it by anybody.
    pub available_bytes: Option<u64>,
    /// Inodes in all, where the filesystem has a fixed number of them.
    pub inodes: Option<u64>,
    /// Inodes in use.
    pub used_inodes: Option<u64>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl System {
    /// The filesystems that it mounts: the root, and what is planned and found.
    pub fn filesystems(&self) -> Vec<MountedFilesystem> {
        let mut found = vec![mounted("/", &self.volume, self.filesystem.statistics())];
        for planned in &self.planned {
            let Verdict::Mount { volume, .. } = &planned.verdict else {
                continue;
            };
            let path = String::from_utf8_lossy(&planned.entry.at);
            let opened = volume.filesystem();
            let statistics = opened.and_then(|filesystem| filesystem.statistics());
            found.push(mounted(&path, volume, statistics));
        }
        found
    }
}

/// The filesystem of a volume that is looked at alone.
pub fn mounted(path: &str, volume: &Volume, statistics: Result<Statistics>) -> MountedFilesystem {
    let content = volume.content().ok().flatten();
    let (statistics, problem) = match statistics {
        Ok(statistics) => (Some(statistics), None),
        Err(error) => (None, Some(error.reason().clone())),
    };
    let bytes = |count: fn(&Statistics) -> u64| {
        let of = |it: &Statistics| count(it).saturating_mul(it.block_size.into());
        statistics.as_ref().map(of)
    };
    let inodes = statistics.as_ref().filter(|it| it.inodes > 0);
    MountedFilesystem {
        path: path.to_owned(),
        volume: volume.name().to_owned(),
        filesystem: content.map_or("", |it| it.kind).to_owned(),
        label: content.map_or_else(String::new, |it| {
            String::from_utf8_lossy(&it.label).into_owned()
        }),
        uuid: content.and_then(|it| it.uuid.clone()),
        size_bytes: bytes(|it| it.blocks),
        used_bytes: bytes(|it| it.blocks.saturating_sub(it.blocks_free)),
        available_bytes: bytes(|it| it.blocks_available),
        inodes: inodes.map(|it| it.inodes),
        used_inodes: inodes.map(|it| it.inodes.saturating_sub(it.inodes_free)),
        problem,
    }
}
