//! The filesystems that a system mounts, and their usage.

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
    /// The mount point.
    pub path: String,
    /// The volume, by its name in diskfs.
    pub volume: String,
    /// The kind of filesystem, as `blkid` names it: `ext4`.
    pub filesystem: String,
    /// The label; empty without one.
    pub label: String,
    /// The UUID or serial number.
    pub uuid: Option<String>,
    /// The size in bytes, as df(1) reports it.
    pub size_bytes: Option<u64>,
    /// The number of used bytes.
    pub used_bytes: Option<u64>,
    /// The number of bytes that an ordinary user can still write.
    pub available_bytes: Option<u64>,
    /// The total number of inodes, where the filesystem has a fixed number of them.
    pub inodes: Option<u64>,
    /// The number of inodes in use.
    pub used_inodes: Option<u64>,
    /// The reason why the usage is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl System {
    /// Returns the filesystems that the system mounts: the root, and the planned mounts that were
    /// found.
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

/// Returns the filesystem of a single volume, mounted at `path`.
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
