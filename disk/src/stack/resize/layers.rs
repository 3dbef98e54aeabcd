//! The layers around a volume that have a size of their own.

use super::{Disk, Volume};
use crate::stack::place::VolumePlace;

/// A layer around a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layer {
    /// A partition of the first disk.
    Partition { number: u32, name: String },
    /// A volume whose size is not changed, with the reason.
    Fixed { name: String, reason: String },
    /// The decrypted inside of an encrypted volume, by its own name.
    Luks { name: String },
    /// The physical volume of a group on a volume.
    PhysicalVolume { group: String, member: String },
    /// A logical volume, with its name in the group.
    LogicalVolume {
        group: String,
        logical: String,
        name: String,
    },
}

impl Layer {
    /// Returns the name of the volume whose size it decides on.
    pub(super) fn volume(&self) -> &str {
        match self {
            Self::Partition { name, .. }
            | Self::Fixed { name, .. }
            | Self::Luks { name }
            | Self::LogicalVolume { name, .. } => name,
            Self::PhysicalVolume { member, .. } => member,
        }
    }
}

/// Returns the layers around a volume, from the outside to the inside, and the volume itself.
pub(super) fn around(disk: &Disk, volume: &Volume) -> Vec<Layer> {
    let mut layers = Vec::new();
    collect(volume, &mut layers);
    let groups = disk.groups().unwrap_or_default();
    if let Some(group) = groups.iter().find(|group| group.is_on(volume)) {
        layers.push(Layer::PhysicalVolume {
            group: group.name().to_owned(),
            member: volume.name().to_owned(),
        });
    }
    layers
}

/// Adds the layers of a volume. The nesting of volumes is limited when they are found.
fn collect(volume: &Volume, layers: &mut Vec<Layer>) {
    let name = volume.name().to_owned();
    match volume.place() {
        VolumePlace::Rest(..) => {}
        VolumePlace::Partition(_, partition) if volume.disk_index() == Some(0) => {
            let number = partition.number;
            layers.push(Layer::Partition { number, name });
        }
        VolumePlace::Partition(..) => {
            let reason = "it is on another disk, which keeps its size".to_owned();
            layers.push(Layer::Fixed { name, reason });
        }
        VolumePlace::Array(_) => {
            let reason = "the size of an md array is not changed; use `mdadm --grow`".to_owned();
            layers.push(Layer::Fixed { name, reason });
        }
        VolumePlace::Unlocked(unlocked) => {
            collect(unlocked.outer(), layers);
            layers.push(Layer::Luks { name });
        }
        VolumePlace::Logical(logical) => {
            let group = logical.group.name();
            for member in logical.group.members() {
                collect(member, layers);
                layers.push(Layer::PhysicalVolume {
                    group: group.to_owned(),
                    member: member.name().to_owned(),
                });
            }
            layers.push(Layer::LogicalVolume {
                group: group.to_owned(),
                logical: logical.volume().name.clone(),
                name,
            });
        }
    }
}
