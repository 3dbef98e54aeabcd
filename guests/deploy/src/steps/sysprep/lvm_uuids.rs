//! New UUIDs for volume groups and physical volumes.

use std::sync::Arc;

use super::super::super::guest::Guest;
use super::super::super::volumes::{NewUuid, Volumes};
use super::named_uuids::replace;
use diskfs_disk::{Group, LvmId, NewIds, Result};

/// The directory where LVM keeps backups of the metadata of volume groups.
const BACKUP: &str = "/etc/lvm/backup";

/// The file names of GRUB's core images in `/boot`. If `/boot` is on a logical volume, GRUB finds
/// it by the UUID of the volume group.
const GRUB_CORES: [&str; 4] = [
    "/boot/grub/*/core.img",
    "/boot/grub/*/core.efi",
    "/boot/grub2/*/core.img",
    "/boot/grub2/*/core.efi",
];

/// Gives new UUIDs to all volume groups and their physical volumes. If a group cannot get new ones,
/// this fails with `is_named`, and adds a note otherwise.
pub(super) fn renew(guest: &mut Guest, is_named: bool) -> Result<()> {
    let Some(volumes) = guest.volumes.clone() else {
        return without_volumes(guest, is_named);
    };
    let mut renewed = Vec::new();
    for group in &volumes.groups {
        if guest.volume_changes.has_group(group) {
            continue;
        }
        let ids = new_ids(guest, &volumes, group)?;
        if let Err(error) = group.check_new_ids(&ids) {
            if is_named {
                let hint = "omit the operation `lvm-uuids`";
                return Err(error.with_hint(hint));
            }
            guest.note(format!("lvm-uuids was skipped for a volume group: {error}"));
            continue;
        }
        renewed.extend(new_uuids(group, &ids));
        guest.volume_changes.add_group(Arc::clone(group), ids);
    }
    replace(guest, &renewed)?;
    guest.report_uuids(renewed);
    Ok(())
}

/// Handles a target that is a single filesystem, where the presence of volume groups can only be
/// guessed.
fn without_volumes(guest: &mut Guest, is_named: bool) -> Result<()> {
    if is_named {
        return Err(guest.invalid("lvm-uuids: the target is a single filesystem, not a whole disk"));
    }
    if guest.stage.is_dir(BACKUP)? && !guest.stage.names(BACKUP)?.is_empty() {
        guest.note("lvm-uuids was skipped: the target is a single filesystem, not a whole disk");
    }
    Ok(())
}

fn new_ids(guest: &mut Guest, volumes: &Volumes, group: &Arc<Group>) -> Result<NewIds> {
    let metadata = group.metadata();
    let mut physical = Vec::new();
    for entry in &metadata.physical_volumes {
        physical.push((entry.id, LvmId::from_random(guest.random()?)));
    }
    let mut id = LvmId::from_random(guest.random()?);
    if let Some(core) = grub_on(guest, volumes, group)? {
        guest.note(format!(
            "volume group {} keeps its UUID, because {core} finds /boot by it; to change it, \
             run vgchange --uuid and then grub-install in the guest",
            group.name()
        ));
        id = metadata.id;
    }
    Ok(NewIds {
        group: id,
        physical,
    })
}

/// Returns the path of a GRUB core image on a volume of the group.
fn grub_on(guest: &Guest, volumes: &Volumes, group: &Arc<Group>) -> Result<Option<String>> {
    for pattern in GRUB_CORES {
        for path in guest.stage.expand(pattern)? {
            let volume = volumes.holding(&path);
            let on = volume.and_then(|volume| volume.logical());
            if on.is_some_and(|(on, _)| on.metadata().id == group.metadata().id) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

fn new_uuids(group: &Group, ids: &NewIds) -> Vec<NewUuid> {
    let old_id = group.metadata().id;
    let of_group = NewUuid {
        of: format!("volume group {}", group.name()),
        old: old_id.to_string(),
        new: ids.group.to_string(),
    };
    let mut new_uuids: Vec<_> = Some(of_group)
        .filter(|it| it.old != it.new)
        .into_iter()
        .collect();
    for (old, new) in &ids.physical {
        let volume = group.member(old).map_or("?", |volume| volume.name());
        new_uuids.push(NewUuid {
            of: format!("physical volume {volume}"),
            old: old.to_string(),
            new: new.to_string(),
        });
    }
    new_uuids
}
