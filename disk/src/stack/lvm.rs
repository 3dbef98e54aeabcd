//! Logical volumes: volume groups assembled from the volumes of a disk.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind};
use diskfs_volume::lvm::{LogicalVolume, PhysicalVolume, PvEntry, VolumeGroup, volume_groups};
pub use diskfs_volume::lvm::{LvmId, NewIds};

use super::Volume;
use super::place::VolumePlace;
use super::writer::SharedWriter;
use crate::{Error, Result};

/// A volume group on a disk.
#[derive(Debug)]
pub struct Group {
    name: String,
    metadata: VolumeGroup,
    /// The volumes that hold its physical volumes.
    members: Vec<(LvmId, Volume)>,
    /// The shared writers of the logical volumes, by index.
    writers: Vec<SharedWriter>,
}

impl Group {
    /// Returns the name that its volumes have before the `/`: the group's name, or its UUID if
    /// several groups have that name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the contents of its metadata.
    pub fn metadata(&self) -> &VolumeGroup {
        &self.metadata
    }

    /// Returns the volume that holds one of its physical volumes; `None` if it is missing.
    pub fn member(&self, id: &LvmId) -> Option<&Volume> {
        let found = self.members.iter().find(|(member, _)| member == id);
        found.map(|(_, volume)| volume)
    }

    /// Returns the volumes that hold its physical volumes.
    pub(super) fn members(&self) -> impl Iterator<Item = &Volume> {
        self.members.iter().map(|(_, volume)| volume)
    }

    /// Returns the UUID of the physical volume that a volume holds, by the volume's name: `p3`,
    /// `p3/luks`.
    pub fn physical_volume_on(&self, volume: &str) -> Option<LvmId> {
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.name() == volume);
        found.map(|(id, _)| *id)
    }

    /// Checks that [`change_ids`](Self::change_ids) can change the group. Nothing is written.
    ///
    /// # Errors
    /// As [`VolumeGroup::change_ids`] before its first write.
    pub fn check_new_ids(&self, ids: &NewIds) -> Result<()> {
        let checked = self
            .metadata
            .check_new_ids(ids, &|entry| self.device(entry));
        checked.map_err(|error| self.in_image(error))
    }

    /// Gives the group and its physical volumes new UUIDs, on a disk that is open for writing. The
    /// disk must be opened again to see them.
    ///
    /// # Errors
    /// As [`VolumeGroup::change_ids`]; `ReadOnly` if the disk is open read-only.
    pub fn change_ids(&self, ids: &NewIds) -> Result<()> {
        let changed = self
            .metadata
            .change_ids(ids, &|entry| self.device_for_writing(entry));
        changed.map_err(|error| self.in_image(error))
    }

    fn in_image(&self, error: diskfs_block::Error) -> Error {
        match self.members.first() {
            Some((_, member)) => member.in_image(error),
            None => error.into(),
        }
    }

    /// Returns true if `volume` holds one of its physical volumes.
    pub(super) fn is_on(&self, volume: &Volume) -> bool {
        let mut members = self.members.iter();
        members.any(|(_, member)| member.name() == volume.name())
    }

    /// Returns the device of a physical volume; `None` if it is missing.
    pub(super) fn device(
        &self,
        entry: &PvEntry,
    ) -> diskfs_block::Result<Option<Arc<dyn BlockRead>>> {
        let member = self.find(entry)?;
        member.map(|member| member.place().read()).transpose()
    }

    /// Returns the device of a physical volume for writing; `None` if it is missing.
    ///
    /// # Errors
    /// `ReadOnly` if its disk is open read-only.
    pub(super) fn device_for_writing(
        &self,
        entry: &PvEntry,
    ) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        let member = self.find(entry)?;
        let device = member.map(|member| member.place().write()?.ok_or_else(read_only));
        device.transpose()
    }

    /// Returns the volume with the UUID of `entry`; `None` without one.
    fn find(&self, entry: &PvEntry) -> diskfs_block::Result<Option<&Volume>> {
        let mut found = self.members.iter().filter(|(id, _)| *id == entry.id);
        let first = found.next().map(|(_, volume)| volume);
        if let (Some(first), Some((_, second))) = (first, found.next()) {
            let reason = format!(
                "several physical volumes have the UUID {}: {} and {}",
                entry.id,
                first.name(),
                second.name()
            );
            return Err(diskfs_block::Error::corrupt(reason));
        }
        Ok(first)
    }
}

fn read_only() -> diskfs_block::Error {
    diskfs_block::Error::new(ErrorKind::ReadOnly, "the disk is read-only")
}

/// A logical volume of a [`Group`].
#[derive(Debug, Clone)]
pub(super) struct LvmVolume {
    pub(super) group: Arc<Group>,
    /// The index among the group's logical volumes.
    index: usize,
}

impl LvmVolume {
    pub(super) fn volume(&self) -> &LogicalVolume {
        &self.group.metadata.logical_volumes[self.index]
    }

    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        let opened = self
            .group
            .metadata
            .open(self.volume(), &|entry| self.group.device(entry));
        Ok(Arc::new(opened?))
    }

    /// Returns the volume for writing; `None` if the disk is open read-only.
    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        if self.is_read_only()? {
            return Ok(None);
        }
        let writer = self.group.writers[self.index].get(|| {
            self.group
                .metadata
                .open_writable(self.volume(), &|entry| self.group.device_for_writing(entry))
        });
        Ok(Some(writer?))
    }

    /// Returns true if the disk is open read-only.
    fn is_read_only(&self) -> diskfs_block::Result<bool> {
        match self.group.members.first() {
            Some((_, member)) => Ok(member.place().write()?.is_none()),
            None => Ok(true),
        }
    }

    /// Returns the reason why it can't be opened, if that is known in advance.
    pub(super) fn problem(&self) -> Option<String> {
        let volume = self.volume();
        if let Some(problem) = &volume.problem {
            return Some(problem.to_string());
        }
        let is_there = |id: &LvmId| self.group.member(id).is_some();
        let missing = self.group.metadata.missing_for(volume, &is_there);
        let missing: Vec<String> = missing.iter().map(|entry| entry.id.to_string()).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "needs physical volume {}, not on this disk",
                missing.join(", ")
            )
        })
    }
}

/// The physical volumes that were found so far, each read once.
#[derive(Debug, Default)]
pub(super) struct PhysicalVolumes {
    found: Vec<(PhysicalVolume, Volume)>,
    pub(super) warnings: Vec<String>,
}

impl PhysicalVolumes {
    /// Adds the physical volumes among `volumes`. A volume that can't be read becomes a warning and
    /// is left out, so that the others stay usable.
    pub(super) fn add<'a>(&mut self, volumes: impl Iterator<Item = &'a Volume>) {
        for volume in volumes {
            match physical_volume(volume) {
                Ok(Some(read)) => {
                    let name = volume.name();
                    let warnings = read.warnings.iter().map(|text| format!("{name}: {text}"));
                    self.warnings.extend(warnings);
                    self.found.push((read, volume.clone()));
                }
                Ok(None) => {}
                Err(error) => self.warnings.push(format!("{}: {error}", volume.name())),
            }
        }
    }

    /// Returns the volume groups that the physical volumes describe.
    pub(super) fn groups(&self) -> Vec<Arc<Group>> {
        let mut groups: Vec<Arc<Group>> = Vec::new();
        for metadata in volume_groups(self.found.iter().map(|(read, _)| read)) {
            let members = self.found.iter().filter(|(read, _)| {
                let mut entries = metadata.physical_volumes.iter();
                entries.any(|entry| entry.id == read.id)
            });
            let members = members.map(|(read, volume)| (read.id, volume.clone()));
            let taken = groups.iter().any(|group| group.name == metadata.name);
            groups.push(Arc::new(Group {
                name: if taken {
                    metadata.id.to_string()
                } else {
                    metadata.name.clone()
                },
                members: members.collect(),
                writers: metadata
                    .logical_volumes
                    .iter()
                    .map(|_| SharedWriter::default())
                    .collect(),
                metadata,
            }));
        }
        groups
    }
}

fn physical_volume(volume: &Volume) -> Result<Option<PhysicalVolume>> {
    if volume.problem().is_some() {
        return Ok(None); // The error is reported with the partition table.
    }
    if volume
        .content()?
        .is_none_or(|content| content.kind != "LVM2_member")
    {
        return Ok(None);
    }
    Ok(PhysicalVolume::read(&*volume.device()?)?)
}

/// Returns the logical volumes of a group that users see.
pub(super) fn volumes(image: &Path, group: &Arc<Group>) -> Vec<Volume> {
    let volumes = group.metadata.logical_volumes.iter().enumerate();
    volumes
        .filter(|(_, volume)| volume.visible)
        .map(|(index, volume)| {
            let name = format!("{}/{}", group.name, volume.name);
            let group = Arc::clone(group);
            let place = VolumePlace::Logical(LvmVolume { group, index });
            Volume::new(name, image, place, volume.size_bytes)
        })
        .collect()
}
