//! RAID of Linux's md: arrays put together from the volumes of a disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind};
use diskfs_volume::md::{Array, Member, arrays};

use super::Volume;
use super::place::Place;
use super::writer::OneWriter;
use crate::Result;

/// An array on a disk.
#[derive(Debug)]
pub struct MdArray {
    metadata: Array,
    /// The volumes that said they are members of any array; the slots name them by their places.
    volumes: Arc<Vec<Volume>>,
    /// Logical volumes on it are several users.
    writer: OneWriter,
}

impl MdArray {
    /// What its members say.
    pub fn metadata(&self) -> &Array {
        &self.metadata
    }

    /// The volumes that hold its members, in the order of its slots; `None` for one that is missing
    /// or out of date.
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

    /// `None` when the disk is open for reading only.
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

    /// Why it does not open, if that is known before.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.metadata.problem.as_ref();
        problem.map(|(_, reason)| reason.clone())
    }
}

/// What was found on some volumes.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) arrays: Vec<Arc<MdArray>>,
    /// The names of the volumes that are members, spares and stale ones too.
    pub(super) members: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Puts arrays together from those of `volumes` that are members. What can't be read is told and left
/// out.
pub(super) fn find(volumes: &[Volume]) -> Found {
    let mut found = Found::default();
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
            let writer = OneWriter::default();
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

/// The arrays as volumes. One that is called by a number (`host:0`) has it as the guest's kernel
/// gives it: `md0`; the others have the first numbers that are free.
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
        let place = Place::Array(Arc::clone(array));
        let size_bytes = array.metadata.size_bytes;
        Some(Volume::new(format!("md{number}"), image, place, size_bytes))
    };
    arrays.iter().zip(numbers).filter_map(of).collect()
}
