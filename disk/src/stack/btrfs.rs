//! btrfs, whose filesystems may span several volumes of a machine.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_btrfs::{Btrfs, DeviceInfo, Options, RootSubvolume, device_info, missing_devices};
use diskfs_vfs::{FsRead, Result};

use super::Volume;
use crate::{Error, ErrorKind};

pub(super) const KIND: &str = "btrfs";

/// The subvolume at the top, in which all others are directories: so `subvol=` of fstab(5) is a
/// path, and the driver shows the same tree as the microVM.
const TOP_LEVEL: u64 = 5;

/// Opens the filesystem on `device`, which is that of `volume`, with its devices among the volumes
/// beside it.
pub(super) fn open(volume: &Volume, device: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>> {
    let further = further_devices(volume, &*device)?;
    let further = further.into_iter().map(|(_, device)| device);
    let devices = std::iter::once(device).chain(further).collect();
    let options = Options {
        root: RootSubvolume::Id(TOP_LEVEL),
        ..Options::default()
    };
    Ok(Arc::new(Btrfs::open(devices, &options)?))
}

/// Returns the other volumes of the filesystem on `device`, which is that of `volume`. All devices
/// of the filesystem are there.
///
/// # Errors
/// `NotFound` if a device is missing, with its ID and UUID; `Corrupt` if the list of devices is
/// invalid; `Io`.
pub(super) fn other_volumes<'v>(
    volume: &'v Volume,
    device: &Arc<dyn BlockRead>,
) -> crate::Result<Vec<&'v Volume>> {
    let (others, further): (Vec<_>, Vec<_>) =
        further_devices(volume, &**device)?.into_iter().unzip();
    let expects_others = device_info(&**device)?.is_some_and(|own| own.device_count > 1);
    if expects_others {
        let devices = std::iter::once(Arc::clone(device)).chain(further).collect();
        check_complete(volume, devices)?;
    }
    Ok(others)
}

/// Fails if a device of a filesystem is missing.
fn check_complete(volume: &Volume, devices: Vec<Arc<dyn BlockRead>>) -> crate::Result<()> {
    let missing = missing_devices(devices)?;
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<_> = missing
        .iter()
        .map(|device| format!("device {} (UUID {})", device.device_id, device.device_uuid))
        .collect();
    let reason = format!(
        "volume {} holds a btrfs of several devices, and its {} missing",
        volume.name(),
        match &*missing {
            [one] => format!("{one} is"),
            several => format!("{} are", several.join(", ")),
        }
    );
    let hint = "open the filesystem with all of its devices; on the command line, use --add";
    Err(Error::new(ErrorKind::NotFound, reason).with_hint(hint))
}

/// Returns the other devices of a filesystem, and the seeds that it may have grown from, with their
/// volumes. A volume that can't be read is a missing device, which the driver reports if it needs
/// it.
fn further_devices<'v>(
    volume: &'v Volume,
    device: &dyn BlockRead,
) -> Result<Vec<(&'v Volume, Arc<dyn BlockRead>)>> {
    let Some(own) = device_info(device)?.filter(|own| own.device_count > 1) else {
        return Ok(Vec::new());
    };
    let others = volume.beside().iter();
    let others = others.filter(|other| other.name() != volume.name());
    let mut found: Vec<_> = others
        .filter_map(|other| Some((other, member(other)?)))
        .collect();
    // With the seeds last, a device of the filesystem itself has precedence over one with its ID.
    found.sort_by_key(|(_, (_, info))| info.filesystem_uuid != own.filesystem_uuid);
    let mut ids = vec![own.device_id];
    found.retain(|(_, (_, info))| {
        let is_related = info.filesystem_uuid == own.filesystem_uuid || info.is_seed;
        let is_taken = is_related && !ids.contains(&info.device_id);
        if is_taken {
            ids.push(info.device_id);
        }
        is_taken
    });
    let devices = found.into_iter();
    Ok(devices
        .map(|(volume, (device, _))| (volume, device))
        .collect())
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
