//! LVM2: physical volumes, the groups they form, and logical volumes as devices.
//!
//! [`PhysicalVolume::read`] looks at a device, [`volume_groups`] puts together what several say, and
//! [`VolumeGroup::open`] makes a device of a logical volume. Nothing is registered anywhere, so any
//! number of groups with the same names and identities can be open at once.
//!
//! There is no specification but LVM2's source; each structure here is named as it is there.

mod crc;
mod dm_raid_superblock;
mod group;
mod id;
mod label_header;
mod logical_volume;
mod mda_header;
mod mda_writer;
mod mirror_log;
mod new_ids;
mod open;
mod overlap;
mod physical_volume;
mod pv_entry;
mod pv_header;
mod raid_type;
mod raw_locn;
mod segment;
mod snapshot;
mod text;
mod volume_group;

pub use group::volume_groups;
pub use id::LvmId;
pub use logical_volume::{LogicalVolume, Problem};
pub use new_ids::NewIds;
pub use physical_volume::PhysicalVolume;
pub use pv_entry::PvEntry;
pub use volume_group::VolumeGroup;
