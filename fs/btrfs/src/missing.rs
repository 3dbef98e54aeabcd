//! The devices of a filesystem that are missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::BlockRead;

use crate::bytes::uuid_text;
use crate::chunk_map::ChunkMap;
use crate::device_set::DeviceSet;
use crate::error::Result;
use crate::superblock::Superblock;
use crate::volume::listed_devices;

/// A device that a filesystem has, and that was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingDevice {
    /// The ID of the device within its filesystem.
    pub device_id: u64,
    /// The UUID of the device.
    pub device_uuid: String,
}

/// Returns the devices of a filesystem that are not among `devices`, by their IDs. If the list of
/// devices is on a missing one, only those that must have the list are returned.
///
/// # Errors
/// `Corrupt` if the list of devices is invalid; `Unsupported` for an unknown checksum algorithm;
/// `Io` if a device fails; `Invalid` if the devices belong to different filesystems. The
/// filesystem's features don't matter.
pub fn missing_devices(devices: Vec<Arc<dyn BlockRead>>) -> Result<Vec<MissingDevice>> {
    let devices = DeviceSet::open(devices, Superblock::read_with_any_features)?;
    let system_chunks = ChunkMap::of_array(&devices.superblock.sys_chunk_array)?;
    let stripes = system_chunks.iter().flat_map(|chunk| &chunk.stripes);
    let mut expected: BTreeMap<_, _> = stripes.map(|it| (it.devid, it.dev_uuid)).collect();
    let is_missing = |(id, uuid): (&u64, &[u8; 16])| devices.position(*id, *uuid).is_none();
    match listed_devices(&devices, system_chunks) {
        Ok(listed) => expected.extend(listed.iter().map(|item| (item.devid, item.uuid))),
        Err(_) if expected.iter().any(is_missing) => {}
        Err(error) => return Err(error),
    }
    let missing = expected.iter().filter(|(id, uuid)| is_missing((id, uuid)));
    Ok(missing
        .map(|(device_id, uuid)| MissingDevice {
            device_id: *device_id,
            device_uuid: uuid_text(*uuid),
        })
        .collect())
}
