//! Finding the volumes of a machine's disks: those that are on them, and what is in these.

use std::sync::Arc;

use diskfs_volume::{Partition, Problem};

use super::lvm::{self, Group, PhysicalVolumes};
use super::md::{self, MdArray};
use super::{Disk, Keys, Volume, luks, magic};
use crate::Result;

/// LUKS in LVM in LUKS, and so on: deeper than this, nobody means it.
const MAX_DEPTH: usize = 8;

/// The volumes of a machine, and what they are put together of.
#[derive(Debug)]
pub(super) struct Volumes {
    pub(super) all: Vec<Volume>,
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) arrays: Vec<Arc<MdArray>>,
    /// The names of those that are members of arrays, and nothing by themselves.
    members: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Volumes {
    /// Those of `disk` and its further ones, and of what `keys` unlock.
    ///
    /// # Errors
    /// As reading the partition tables.
    pub(super) fn find(disk: &Disk, keys: Option<&Keys>) -> Result<Self> {
        let mut all = Vec::new();
        for (number, disk) in std::iter::once(disk).chain(disk.further()).enumerate() {
            all.extend(on_the_disk(disk, number)?);
        }
        let md = md::find(&all);
        all.extend(md::volumes(disk.path(), &md.arrays));
        let mut found = Self {
            all,
            groups: Vec::new(),
            arrays: md.arrays,
            members: md.members,
            warnings: md.warnings,
        };
        let mut physical = PhysicalVolumes::default();
        let mut from = 0;
        for _ in 0..MAX_DEPTH {
            let known = found.all.len();
            found.find_inside(disk, keys, &mut physical, from);
            if found.all.len() == known {
                break;
            }
            from = known;
        }
        found.warnings.append(&mut physical.warnings);
        Ok(found)
    }

    /// Adds what is inside the volumes from the index on: what a key opens, then the logical volumes
    /// of groups that are known with theirs.
    fn find_inside(
        &mut self,
        disk: &Disk,
        keys: Option<&Keys>,
        physical: &mut PhysicalVolumes,
        from: usize,
    ) {
        let members = &self.members;
        let is_free = |volume: &Volume| members.iter().all(|name| name != volume.name());
        if let Some(keys) = keys {
            // A member of an array may begin as the array does.
            let outer = self
                .all
                .iter_mut()
                .skip(from)
                .filter(|volume| is_free(volume));
            let inside = luks::unlock(disk.path(), outer, keys);
            self.all.extend(inside);
        }
        let new = self.all.iter().skip(from);
        physical.add(new.filter(|volume| is_free(volume)));
        for group in physical.groups() {
            let id = group.metadata().id;
            if self.groups.iter().all(|known| known.metadata().id != id) {
                self.all.extend(lvm::volumes(disk.path(), &group));
                self.groups.push(group);
            }
        }
        self.groups.sort_by(|a, b| a.name().cmp(b.name()));
    }

    /// Whether a volume is a part of an array or of a group, which are listed beside it.
    pub(super) fn is_member(&self, volume: &Volume) -> bool {
        let in_array = self.members.iter().any(|name| name == volume.name());
        let mut groups = self.groups.iter();
        in_array || groups.any(|group| group.is_on(volume))
    }
}

/// The partitions of the machine's disk of that number from 0, or the whole disk when it has none; and
/// when it is an ISO that boots from a disk, too, whose table names parts of it.
fn on_the_disk(disk: &Disk, number: usize) -> Result<Vec<Volume>> {
    let table = disk.partition_table()?;
    let partitions = table.map_or(&[][..], |table| table.partitions.as_slice());
    let device = || disk.guest_disk();
    let whole = Volume::whole(&disk.path, device());
    let volumes = if partitions.is_empty() {
        vec![whole]
    } else {
        let hybrid = Some(whole).filter(|whole| is_iso(whole).unwrap_or(false));
        let is_hybrid = hybrid.is_some();
        let of_table = partitions
            .iter()
            .filter(|partition| !partition.is_extended())
            .cloned()
            .map(|partition| {
                if is_hybrid {
                    shared(partition)
                } else {
                    partition
                }
            })
            .map(|partition| Volume::partition(&disk.path, device(), &partition));
        hybrid.iter().cloned().chain(of_table).collect()
    };
    Ok(volumes
        .into_iter()
        .map(|volume| volume.on_disk(number))
        .collect())
}

/// Whether there is an ISO on a whole disk, whose first sectors may be anything.
fn is_iso(whole: &Volume) -> Result<bool> {
    Ok(magic::iso9660::is_on(&*whole.device()?)?)
}

/// A partition of an ISO that boots from a disk: it lies on others because that is meant.
fn shared(mut partition: Partition) -> Partition {
    if let Some(Problem::Overlaps { .. }) = partition.problem {
        partition.problem = None;
    }
    partition
}
