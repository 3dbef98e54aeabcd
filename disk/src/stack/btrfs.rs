//! btrfs, whose filesystems may span several volumes of a machine.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_btrfs::{Btrfs, DeviceInfo, Options, RootSubvolume, device_info};
use diskfs_vfs::{FsRead, Result};

use super::Volume;

const KIND: &str = "btrfs";

/// The subvolume at the top, in which all others are directories: so `subvol=` of fstab(5) is a
/// path, and the driver shows the same tree as the microVM.
const TOP_LEVEL: u64 = 5;

/// Opens the filesystem on `device`, which is that of `volume`, with its devices among the volumes
/// beside it.
pub(super) fn open(volume: &Volume, device: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>> {
    let further = match device_info(&*device)? {
        Some(own) if own.device_count > 1 => further_devices(volume, &own),
        _ => Vec::new(),
    };
    let devices = std::iter::once(device).chain(further).collect();
    let options = Options {
        root: RootSubvolume::Id(TOP_LEVEL),
        ..Options::default()
    };
    Ok(Arc::new(Btrfs::open(devices, &options)?))
}

/// Returns the other devices of a filesystem, and the seeds that it may have grown from. A volume
/// that can't be read is a missing device, which the driver reports if it needs it.
fn further_devices(volume: &Volume, own: &DeviceInfo) -> Vec<Arc<dyn BlockRead>> {
    let others = volume.beside().iter();
    let others = others.filter(|other| other.name() != volume.name());
    let mut found: Vec<_> = others.filter_map(member).collect();
    // With the seeds last, a device of the filesystem itself has precedence over one with its ID.
    found.sort_by_key(|(_, info)| info.filesystem_uuid != own.filesystem_uuid);
    let mut ids = vec![own.device_id];
    found.retain(|(_, info)| {
        let is_related = info.filesystem_uuid == own.filesystem_uuid || info.is_seed;
        let is_taken = is_related && !ids.contains(&info.device_id);
        if is_taken {
            ids.push(info.device_id);
        }
        is_taken
    });
    found.into_iter().map(|(device, _)| device).collect()
}

/// Returns true if another volume of `all` lists the filesystem of which this one is a device: an
/// earlier device of the same filesystem, or any of one that has grown from this seed.
pub(super) fn is_further_device(volume: &Volume, all: &[Volume]) -> bool {
    let Some((_, own)) = member(volume) else {
        return false;
    };
    if own.is_seed {
        let mut others = all.iter().filter(|other| other.name() != volume.name());
        let has_grown = |info: &DeviceInfo| {
            !info.is_seed && info.device_count > 1 && info.device_id != own.device_id
        };
        return others.any(|other| member(other).is_some_and(|(_, info)| has_grown(&info)));
    }
    let mut earlier = all.iter().take_while(|other| other.name() != volume.name());
    own.device_count > 1
        && earlier.any(|other| {
            member(other).is_some_and(|(_, info)| {
                info.filesystem_uuid == own.filesystem_uuid && info.device_id != own.device_id
            })
        })
}

/// Returns the volume as a device with its superblock, if it is one of btrfs that can be read.
fn member(volume: &Volume) -> Option<(Arc<dyn BlockRead>, DeviceInfo)> {
    let is_btrfs = |volume: &Volume| {
        let content = volume.content().ok().flatten();
        content.is_some_and(|content| content.kind == KIND)
    };
    if volume.problem().is_some() || !is_btrfs(volume) {
        return None;
    }
    let device = volume.device().ok()?;
    let info = device_info(&*device).ok().flatten()?;
    Some((device, info))
}
