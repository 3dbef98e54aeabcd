//! Logical volumes: groups put together from the volumes of a disk.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind};
use diskfs_volume::lvm::{LogicalVolume, PhysicalVolume, PvEntry, VolumeGroup, volume_groups};
pub use diskfs_volume::lvm::{LvmId, NewIds};

use super::Volume;
use super::place::Place;
use super::writer::OneWriter;
use crate::{Error, Result};

/// A volume group on a disk.
#[derive(Debug)]
pub struct Group {
    name: String,
    metadata: VolumeGroup,
    /// The volumes that hold its physical volumes.
    members: Vec<(LvmId, Volume)>,
    /// One for each logical volume, in their order.
    writers: Vec<OneWriter>,
}

impl Group {
    /// The name that its volumes have before the `/`: the group's, or its UUID when there are
    /// several groups of that name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its metadata says.
    pub fn metadata(&self) -> &VolumeGroup {
        &self.metadata
    }

    /// The volume that holds one of its physical volumes; `None` when that is missing.
    pub fn member(&self, id: &LvmId) -> Option<&Volume> {
        let found = self.members.iter().find(|(member, _)| member == id);
        found.map(|(_, volume)| volume)
    }

    /// Checks that [`change_ids`](Self::change_ids) can change the group. Nothing is written.
    ///
    /// # Errors
    /// As [`VolumeGroup::change_ids`] before its first write.
    pub fn check_new_ids(&self, ids: &NewIds) -> Result<()> {
        let checked = self.metadata.check_new_ids(ids, &|entry| {
            let member = self.find(entry)?;
            member.map(|member| member.place().read()).transpose()
        });
        checked.map_err(|error| self.in_image(error))
    }

    /// Gives the group and its physical volumes new identities, on a disk that is open for writing. The disk has to be
    /// opened again to be looked at.
    ///
    /// # Errors
    /// As [`VolumeGroup::change_ids`]; `ReadOnly` when the disk is open for reading only.
    pub fn change_ids(&self, ids: &NewIds) -> Result<()> {
        let changed = self.metadata.change_ids(ids, &|entry| {
            let member = self.find(entry)?;
            let device = member.map(|member| member.place().write()?.ok_or_else(read_only));
            device.transpose()
        });
        changed.map_err(|error| self.in_image(error))
    }

    fn in_image(&self, error: diskfs_block::Error) -> Error {
        match self.members.first() {
            Some((_, member)) => member.in_image(error),
            None => error.into(),
        }
    }

    /// Whether `volume` is where one of its physical volumes is.
    pub(super) fn is_on(&self, volume: &Volume) -> bool {
        let mut members = self.members.iter();
        members.any(|(_, member)| member.name() == volume.name())
    }

    /// The one volume that says it is `entry`; `None` without any.
    fn find(&self, entry: &PvEntry) -> diskfs_block::Result<Option<&Volume>> {
        let mut found = self.members.iter().filter(|(id, _)| *id == entry.id);
        let first = found.next().map(|(_, volume)| volume);
        if let (Some(first), Some((_, second))) = (first, found.next()) {
            let reason = format!(
                "needs physical volume {}, which {} and {} both say they are",
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
pub(super) struct Logical {
    pub(super) group: Arc<Group>,
    /// Its place among the group's.
    index: usize,
}

impl Logical {
    pub(super) fn volume(&self) -> &LogicalVolume {
        &self.group.metadata.logical_volumes[self.index]
    }

    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        let opened = self.group.metadata.open(self.volume(), &|entry| {
            let member = self.group.find(entry)?;
            member.map(|member| member.place().read()).transpose()
        });
        Ok(Arc::new(opened?))
    }

    /// `None` when the disk is open for reading only.
    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        if self.is_read_only()? {
            return Ok(None);
        }
        let writer = self.group.writers[self.index].get(|| {
            self.group.metadata.open_writable(self.volume(), &|entry| {
                let member = self.group.find(entry)?;
                let device = member.map(|member| member.place().write()?.ok_or_else(read_only));
                device.transpose()
            })
        });
        Ok(Some(writer?))
    }

    /// Whether the disk is open for reading only.
    fn is_read_only(&self) -> diskfs_block::Result<bool> {
        match self.group.members.first() {
            Some((_, member)) => Ok(member.place().write()?.is_none()),
            None => Ok(true),
        }
    }

    /// Why it does not open, if that is known before.
    pub(super) fn problem(&self) -> Option<String> {
        let volume = self.volume();
        if let Some(problem) = &volume.problem {
            return Some(problem.to_string());
        }
        let is_there = |id: &LvmId| self.group.member(id).is_some();
        let missing = self.group.metadata.missing_for(volume, &is_there);
        let missing: Vec<String> = missing.iter().map(|entry| entry.id.to_string()).collect();
        (!missing.is_empty()).then(|| format!("needs {}, not on this disk", missing.join(", ")))
    }
}

/// The physical volumes that were found so far, each read once.
#[derive(Debug, Default)]
pub(super) struct PhysicalVolumes {
    found: Vec<(PhysicalVolume, Volume)>,
    pub(super) warnings: Vec<String>,
}

impl PhysicalVolumes {
    /// Adds those of `volumes` that are physical ones. What can't be read is told and left out: it is
    /// no reason to do without the others.
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

    /// The groups that they tell of.
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
                    .map(|_| OneWriter::default())
                    .collect(),
                metadata,
            }));
        }
        groups
    }
}

fn physical_volume(volume: &Volume) -> Result<Option<PhysicalVolume>> {
    if volume.problem().is_some() {
        return Ok(None); // It is told with the table.
    }
    if volume
        .content()?
        .is_none_or(|content| content.kind != "LVM2_member")
    {
        return Ok(None);
    }
    Ok(PhysicalVolume::read(&*volume.device()?)?)
}

/// The logical volumes of a group that are for users.
pub(super) fn volumes(image: &Path, group: &Arc<Group>) -> Vec<Volume> {
    let volumes = group.metadata.logical_volumes.iter().enumerate();
    volumes
        .filter(|(_, volume)| volume.visible)
        .map(|(index, volume)| {
            let name = format!("{}/{}", group.name, volume.name);
            let group = Arc::clone(group);
            let place = Place::Logical(Logical { group, index });
            Volume::new(name, image, place, volume.size_bytes)
        })
        .collect()
}
