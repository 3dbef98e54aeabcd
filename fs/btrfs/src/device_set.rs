//! The devices of a filesystem.

use std::sync::Arc;

use diskfs_block::BlockRead;

use crate::bytes::uuid_text;
use crate::dev_item::DevItem;
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::superblock::Superblock;

/// A device that is present.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) devid: u64,
    pub(crate) uuid: [u8; 16],
    pub(crate) device: Arc<dyn BlockRead>,
}

impl Member {
    /// Reads bytes of the device. A range that is not within the device is corrupt, because the
    /// filesystem says that the device has it.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let size_bytes = self.device.size_bytes();
        if diskfs_block::check_bounds(offset, diskfs_block::len_of(buf), size_bytes).is_err() {
            let reason = format!(
                "invalid chunk of btrfs: it is outside of device {}, which has {size_bytes} bytes",
                self.devid
            );
            return Err(corrupt(reason, offset));
        }
        self.device.read_at(offset, buf).map_err(device_failed)
    }
}

/// The present devices of a filesystem, and the superblock of the newest.
#[derive(Debug, Clone)]
pub(crate) struct DeviceSet {
    pub(crate) members: Vec<Member>,
    pub(crate) superblock: Superblock,
    /// The UUIDs that the headers of tree blocks may have.
    pub(crate) fsids: Vec<[u8; 16]>,
    /// All devices of the filesystem, present or not, from the chunk tree.
    pub(crate) items: Vec<DevItem>,
    /// Notes for the filesystem's identity.
    pub(crate) notes: Vec<String>,
}

impl DeviceSet {
    /// Reads the superblocks of `devices`, which must all be of one filesystem, except for its seed
    /// devices. `read_superblock` decides about the features of the filesystem.
    pub(crate) fn open(
        devices: Vec<Arc<dyn BlockRead>>,
        read_superblock: impl Fn(&dyn BlockRead) -> Result<Superblock>,
    ) -> Result<Self> {
        let mut found = Vec::with_capacity(devices.len());
        for device in devices {
            let superblock = read_superblock(&*device)?;
            found.push((superblock, device));
        }
        let newest = found.iter().map(|(superblock, _)| superblock);
        let newest = newest.reduce(|a, b| if is_better(b, a) { b } else { a });
        let missing = || Error::new(ErrorKind::Invalid, "missing device of btrfs");
        let superblock = newest.ok_or_else(missing)?.clone();
        let mut set = Self {
            members: Vec::with_capacity(found.len()),
            fsids: vec![superblock.metadata_uuid],
            items: Vec::new(),
            notes: Vec::new(),
            superblock,
        };
        for (superblock, device) in found {
            set.add(&superblock, device)?;
        }
        Ok(set)
    }

    fn add(&mut self, superblock: &Superblock, device: Arc<dyn BlockRead>) -> Result<()> {
        if superblock.metadata_uuid != self.superblock.metadata_uuid {
            if !superblock.is_seed() {
                return Err(foreign(superblock, &self.superblock));
            }
            self.fsids.push(superblock.metadata_uuid);
        } else if superblock.generation != self.superblock.generation {
            let devid = superblock.device.devid;
            self.notes.push(format!("device {devid} is out of date"));
        }
        if superblock.at != crate::superblock::SUPERBLOCK_AT {
            let at = superblock.at;
            self.notes
                .push(format!("superblock read from the copy at byte {at}"));
        }
        let member = Member {
            devid: superblock.device.devid,
            uuid: superblock.device.uuid,
            device,
        };
        if self.members.iter().any(|other| other.devid == member.devid) {
            let reason = format!("two devices of btrfs have the ID {}", member.devid);
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint("open one of them only"));
        }
        self.members.push(member);
        Ok(())
    }

    /// Returns the index of the device with this ID and UUID.
    pub(crate) fn position(&self, devid: u64, uuid: [u8; 16]) -> Option<usize> {
        let is_it = |member: &Member| member.devid == devid && member.uuid == uuid;
        self.members.iter().position(is_it)
    }
}

/// Returns true if `a` is the better superblock for opening: that of a filesystem over its seed,
/// and then the newer one.
fn is_better(a: &Superblock, b: &Superblock) -> bool {
    (!a.is_seed(), a.generation) > (!b.is_seed(), b.generation)
}

fn foreign(found: &Superblock, expected: &Superblock) -> Error {
    let reason = format!(
        "the devices belong to different filesystems: {} and {}",
        uuid_text(expected.fsid),
        uuid_text(found.fsid)
    );
    Error::new(ErrorKind::Invalid, reason).with_hint("open each filesystem separately")
}
