//! Changes of volumes in a plan: new identities of volume groups and filesystems.

use std::sync::Arc;

use serde::Serialize;

use diskfs_disk::guest::{Verdict, systems};
use diskfs_disk::{Disk, Filesystem, Group, NewIds, Result, Volume, WritableFilesystem};
use diskfs_vfs::{Follow, resolve};

/// The volumes of the guest's machine.
#[derive(Debug, Clone)]
pub(super) struct Volumes {
    pub(super) groups: Vec<Arc<Group>>,
    /// The volumes that the guest mounts, by mount point, with the root first.
    pub(super) mounts: Vec<(String, Volume)>,
    /// All volumes of the machine.
    pub(super) all: Vec<Volume>,
}

impl Volumes {
    pub(super) fn of(disk: &Disk, guest: &Filesystem) -> Result<Self> {
        let groups = disk.groups()?.to_vec();
        let all = disk.volumes()?.to_vec();
        let mut mounts = Vec::new();
        mounts.push((String::new(), disk.volume(guest.volume())?));
        let systems = systems(disk)?;
        let system = systems
            .iter()
            .find(|system| system.volume().name() == guest.volume());
        for planned in system.map_or(&[][..], |system| system.planned()) {
            if let Verdict::Mount { volume, .. } = &planned.verdict {
                let path = String::from_utf8_lossy(&planned.entry.at);
                let path = path.trim_matches('/');
                mounts.push((format!("/{path}"), (**volume).clone()));
            }
        }
        Ok(Self {
            groups,
            mounts,
            all,
        })
    }

    /// Returns the volume on which a path of the guest is stored.
    pub(super) fn holding(&self, path: &str) -> Option<&Volume> {
        let holds = |at: &str| {
            let rest = path.strip_prefix(at);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mounts = self.mounts.iter().filter(|(at, _)| holds(at));
        mounts.max_by_key(|(at, _)| at.len()).map(|(_, it)| it)
    }
}

/// A UUID that a plan replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewUuid {
    /// The object of the UUID: `volume group vg0`.
    pub of: String,
    /// The old UUID.
    pub old: String,
    /// The new UUID.
    pub new: String,
}

/// Changes of volumes. Those of filesystems are written together with the changes of files; those
/// of groups are written after them.
#[derive(Debug, Default)]
pub struct VolumeChanges {
    groups: Vec<(Arc<Group>, NewIds)>,
    /// The new UUIDs of filesystems, by mount point.
    filesystems: Vec<(String, [u8; 16])>,
}

impl VolumeChanges {
    /// Returns true if no volume changes.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.filesystems.is_empty()
    }

    /// Returns true if no volume group changes.
    pub fn keeps_groups(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns true if no filesystem gets another UUID.
    pub fn keeps_filesystems(&self) -> bool {
        self.filesystems.is_empty()
    }

    pub(super) fn add_filesystem(&mut self, path: &str, uuid: [u8; 16]) {
        self.filesystems.push((path.to_owned(), uuid));
    }

    /// Returns true if the filesystem at a mount point already has a new UUID.
    pub(super) fn has_filesystem(&self, path: &str) -> bool {
        self.filesystems.iter().any(|(known, _)| known == path)
    }

    /// Writes the new UUIDs of filesystems, in addition to the changes of their files.
    pub(super) fn apply_to(&self, target: &WritableFilesystem) -> Result<()> {
        let fs = target.as_fs();
        self.filesystems.iter().try_for_each(|(path, uuid)| {
            let inode = resolve(fs, path.as_bytes(), Follow::All);
            let changed = inode.and_then(|inode| fs.set_uuid(inode, *uuid));
            changed.map_err(|error| target.in_image(error.in_path(path)))
        })
    }

    pub(super) fn add_group(&mut self, group: Arc<Group>, ids: NewIds) {
        self.groups.push((group, ids));
    }

    /// Returns true if the group already has a new identity.
    pub(super) fn has_group(&self, group: &Arc<Group>) -> bool {
        self.groups
            .iter()
            .any(|(known, _)| Arc::ptr_eq(known, group))
    }

    /// Writes the changes of volume groups. The guest's filesystems must be closed before;
    /// [`Deployment::apply`](super::Deployment::apply) does that.
    ///
    /// # Errors
    /// The errors of writing. A group that was not reached keeps its UUIDs.
    pub fn apply(&self) -> Result<()> {
        let mut groups = self.groups.iter();
        groups.try_for_each(|(group, ids)| group.change_ids(ids))
    }
}
