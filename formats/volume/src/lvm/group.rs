//! Assembling groups from physical volumes.

use super::physical_volume::PhysicalVolume;
use super::volume_group::VolumeGroup;

/// Returns the volume groups of some physical volumes, each according to the newest metadata, in
/// the order of their names. A group may need physical volumes that are missing.
pub fn volume_groups<'a>(
    physical: impl IntoIterator<Item = &'a PhysicalVolume>,
) -> Vec<VolumeGroup> {
    let mut groups: Vec<&VolumeGroup> = Vec::new();
    for group in physical.into_iter().filter_map(|pv| pv.group.as_ref()) {
        match groups.iter_mut().find(|known| known.id == group.id) {
            Some(known) if known.seqno < group.seqno => *known = group,
            Some(_) => {}
            None => groups.push(group),
        }
    }
    groups.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    groups.into_iter().cloned().collect()
}
