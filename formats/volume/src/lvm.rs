//! LVM2: physical volumes, their volume groups, and logical volumes as devices.
//!
//! [`PhysicalVolume::read`] reads the metadata on a device, [`volume_groups`] combines the metadata
//! of several, and [`VolumeGroup::open`] opens a logical volume as a device. Nothing is registered
//! globally, so any number of groups with the same names and UUIDs can be open at once.
//! [`VolumeGroup::editor`] changes the sizes of volumes, and [`NewGroup`] creates a group.
//!
//! The only specification is LVM2's source; each structure here has its name from there.

mod crc;
mod dm_raid_superblock;
mod edit;
mod group;
mod id;
mod label_header;
mod logical_volume;
mod mda_header;
mod mda_writer;
mod member_writer;
mod members;
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

pub use edit::{GroupEditor, MetadataOrigin, NewGroup, NewVolume};
pub use group::volume_groups;
pub use id::LvmId;
pub use logical_volume::{LogicalVolume, Problem};
pub use new_ids::NewIds;
pub use physical_volume::PhysicalVolume;
pub use pv_entry::PvEntry;
pub use volume_group::VolumeGroup;
