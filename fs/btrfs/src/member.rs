//! The description of a filesystem in the superblock of one of its devices.

use diskfs_block::BlockRead;

use crate::bytes::uuid_text;
use crate::error::Result;
use crate::superblock::Superblock;

/// The description of a filesystem in the superblock of one of its devices, from which the devices
/// of one filesystem can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The UUID of the filesystem.
    pub filesystem_uuid: String,
    /// The label of the filesystem; empty without one.
    pub label: Vec<u8>,
    /// The ID of the device within its filesystem.
    pub device_id: u64,
    /// The UUID of the device.
    pub device_uuid: String,
    /// The number of devices that the filesystem has.
    pub device_count: u64,
    /// The transaction that was written last.
    pub generation: u64,
    /// True if the device is a seed: filesystems that have grown from it have other UUIDs.
    pub is_seed: bool,
}

/// Reads the superblock of a device. Returns `None` if the device does not have one of btrfs.
///
/// # Errors
/// `Corrupt` if the superblock and its copies are invalid; `Unsupported` for an unknown checksum
/// algorithm; `Io` if the device fails. The filesystem's features don't matter.
pub fn device_info(device: &dyn BlockRead) -> Result<Option<DeviceInfo>> {
    let superblock = Superblock::probe(device)?;
    Ok(superblock.map(|superblock| DeviceInfo {
        filesystem_uuid: uuid_text(superblock.fsid),
        device_id: superblock.device.devid,
        device_uuid: uuid_text(superblock.device.uuid),
        device_count: superblock.num_devices,
        generation: superblock.generation,
        is_seed: superblock.is_seed(),
        label: superblock.label,
    }))
}
