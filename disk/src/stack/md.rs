//! Linux md RAID: arrays assembled from the volumes of a disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind};
use diskfs_volume::md::{Array, Member, arrays};

use super::Volume;
use super::place::VolumePlace;
use super::writer::SharedWriter;
use crate::Result;

/// An md array on a disk.
#[derive(Debug)]
pub struct MdArray {
    metadata: Array,
    /// The volumes that are members of any array; the slots refer to them by index.
    volumes: Arc<Vec<Volume>>,
    /// The writer of the array, shared by the logical volumes on it.
    writer: SharedWriter,
}

impl MdArray {
    /// Returns the contents of the members' superblocks.
    pub fn metadata(&self) -> &Array {
        &self.metadata
    }

    /// Returns the volumes that hold its members, by slot; `None` for a member that is missing or
    /// out of date.
    pub fn members(&self) -> impl Iterator<Item = Option<&Volume>> {
        let slots = self.metadata.slots.iter();
        slots.map(|slot| slot.and_then(|index| self.volumes.get(index)))
    }

    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        let missing = || diskfs_block::Error::new(ErrorKind::NotFound, "a member is missing");
        let opened = self.metadata.open(&|index| {
            let member = self.volumes.get(index).ok_or_else(missing)?;
            member.place().read()
        });
        Ok(Arc::new(opened?))
    }

    /// Returns the array for writing; `None` if the disk is open read-only.
    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        let read_only = || diskfs_block::Error::new(ErrorKind::ReadOnly, "the disk is read-only");
        let mut slots = self.metadata.slots.iter().flatten();
        let first = slots.next().and_then(|index| self.volumes.get(*index));
        let first = first.map(|member| member.place().write()).transpose()?;
        if first.flatten().is_none() {
            return Ok(None);
        }
        let writer = self.writer.get(|| {
            self.metadata.open_writable(&|index| {
                let member = self.volumes.get(index).ok_or_else(read_only)?;
                member.place().write()?.ok_or_else(read_only)
            })
        });
        Ok(Some(writer?))
    }

    /// Returns the reason why it can't be opened, if that is known in advance.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.metadata.problem.as_ref();
        problem.map(|(_, reason)| reason.clone())
    }
}

/// The arrays that were found on some volumes.
#[derive(Debug, Default)]
pub(super) struct FoundArrays {
    pub(super) arrays: Vec<Arc<MdArray>>,
    /// The names of the member volumes, including spares and stale members.
    pub(super) members: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Assembles arrays from the members among `volumes`. A volume that can't be read becomes a warning
/// and is left out.
pub(super) fn find(volumes: &[Volume]) -> FoundArrays {
    let mut found = FoundArrays::default();
    let mut read: Vec<Member> = Vec::new();
    let mut on: Vec<Volume> = Vec::new();
    for volume in volumes.iter().filter(|volume| volume.problem().is_none()) {
        match member(volume) {
            Ok(Some(member)) => {
                found.members.push(volume.name().to_owned());
                read.push(member);
                on.push(volume.clone());
            }
            Ok(None) => {}
            Err(error) => found.warnings.push(format!("{}: {error}", volume.name())),
        }
    }
    let volumes = Arc::new(on);
    let arrays = arrays(&read).into_iter();
    found.arrays = arrays
        .map(|metadata| {
            let volumes = Arc::clone(&volumes);
            let writer = SharedWriter::default();
            Arc::new(MdArray {
                metadata,
                volumes,
                writer,
            })
        })
        .collect();
    found
}

fn member(volume: &Volume) -> Result<Option<Member>> {
    Ok(Member::read(&*volume.device()?)?)
}

/// Returns the arrays as volumes. An array whose name is a number (`host:0`) gets the name that the
/// guest's kernel uses, `md0`; the others get the lowest free numbers.
pub(super) fn volumes(image: &Path, arrays: &[Arc<MdArray>]) -> Vec<Volume> {
    let wanted = |array: &MdArray| array.metadata.name.rsplit(':').next()?.parse::<u16>().ok();
    let mut taken = BTreeSet::new();
    let mut numbers: Vec<Option<u16>> = Vec::new();
    for array in arrays {
        numbers.push(wanted(array).filter(|number| taken.insert(*number)));
    }
    let mut free = (0..=u16::MAX).filter(|number| !taken.contains(number));
    let of = |(array, number): (&Arc<MdArray>, Option<u16>)| {
        let number = number.or_else(|| free.next())?;
        let place = VolumePlace::Array(Arc::clone(array));
        let size_bytes = array.metadata.size_bytes;
        Some(Volume::new(format!("md{number}"), image, place, size_bytes))
    };
    arrays.iter().zip(numbers).filter_map(of).collect()
}
