//! The search for the volumes of a machine's disks: those on the disks, and those inside of other
//! volumes.

use std::sync::Arc;

use diskfs_volume::{Partition, Problem};

use super::lvm::{self, Group, PhysicalVolumes};
use super::md::{self, MdArray};
use super::{Disk, Keys, Volume, btrfs, luks, magic};
use crate::Result;

/// The limit on nesting (LUKS in LVM in LUKS, and so on), deeper than any real disk.
const MAX_DEPTH: usize = 8;

/// The volumes of a machine, and the arrays and groups that some of them belong to.
#[derive(Debug)]
pub(super) struct Volumes {
    pub(super) all: Vec<Volume>,
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) arrays: Vec<Arc<MdArray>>,
    /// The names of the volumes that are members of arrays, which have no content of their own.
    members: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Volumes {
    /// Finds the volumes of `disk` and of the machine's other disks, and those that `keys` unlock.
    ///
    /// # Errors
    /// The errors of reading the partition tables.
    pub(super) fn find(disk: &Disk, keys: Option<&Keys>) -> Result<Self> {
        let mut all = Vec::new();
        for (number, disk) in std::iter::once(disk).chain(disk.other_disks()).enumerate() {
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

    /// Adds the volumes inside of those from the index on: first what a key unlocks, then the
    /// logical volumes of groups whose physical volumes are known.
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
            // Members of an array are skipped: they may start with the array's own data.
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

    /// Returns true if a volume is a member of an array or a volume group, which are listed
    /// separately, or a further device of a btrfs filesystem.
    pub(super) fn is_member(&self, volume: &Volume) -> bool {
        let in_array = self.members.iter().any(|name| name == volume.name());
        let mut groups = self.groups.iter();
        in_array
            || groups.any(|group| group.is_on(volume))
            || btrfs::is_further_device(volume, &self.all)
    }
}

/// Returns the partitions of the machine's disk with this index from 0, or the whole disk if it has
/// no partition table. An ISO that also boots from a disk is listed as a whole, too, because its
/// table names parts of it.
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

/// Returns true if a whole disk holds an ISO, whatever is in its first sectors.
fn is_iso(whole: &Volume) -> Result<bool> {
    Ok(magic::iso9660::is_on(&*whole.device()?)?)
}

/// Clears the problem of a partition of an ISO that boots from a disk: such partitions overlap on
/// purpose.
fn shared(mut partition: Partition) -> Partition {
    if let Some(Problem::Overlaps { .. }) = partition.problem {
        partition.problem = None;
    }
    partition
}
