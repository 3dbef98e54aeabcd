//! New UUIDs for volume groups and physical volumes.

use std::sync::Arc;

use super::super::super::guest::Guest;
use super::super::super::volumes::{NewUuid, Volumes};
use super::named_uuids::replace;
use diskfs_disk::{Group, LvmId, NewIds, Result};

/// Where LVM keeps what it knows of groups.
const BACKUP: &str = "/etc/lvm/backup";

/// What GRUB is installed as, in `/boot`. It finds `/boot` on a logical volume by the UUID of the group.
const GRUB_CORES: [&str; 4] = [
    "/boot/grub/*/core.img",
    "/boot/grub/*/core.efi",
    "/boot/grub2/*/core.img",
    "/boot/grub2/*/core.efi",
];

/// Gives all groups new UUIDs. With `is_named` it fails for one that can't get them, else it notes that.
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
                let hint = "leave the operation `lvm-uuids` out";
                return Err(error.with_hint(hint));
            }
            guest.note(format!("lvm-uuids is left out for a volume group: {error}"));
            continue;
        }
        renewed.extend(told(group, &ids));
        guest.volume_changes.add_group(Arc::clone(group), ids);
    }
    replace(guest, &renewed)?;
    guest.tell_uuids(renewed);
    Ok(())
}

/// Where only a filesystem is known, a group can only be guessed.
fn without_volumes(guest: &mut Guest, is_named: bool) -> Result<()> {
    if is_named {
        return Err(guest.invalid("lvm-uuids: only the filesystem is known, not its disk"));
    }
    if guest.stage.is_dir(BACKUP)? && !guest.stage.names(BACKUP)?.is_empty() {
        guest.note("lvm-uuids is left out: only the filesystem is known, not its disk");
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
            "volume group {} keeps its UUID, by which {core} finds /boot: run grub-install in the guest after a change by vgchange --uuid",
            group.name()
        ));
        id = metadata.id;
    }
    Ok(NewIds {
        group: id,
        physical,
    })
}

/// Returns the GRUB that is started from a volume of the group.
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

fn told(group: &Group, ids: &NewIds) -> Vec<NewUuid> {
    let old_id = group.metadata().id;
    let of_group = NewUuid {
        of: format!("volume group {}", group.name()),
        old: old_id.to_string(),
        new: ids.group.to_string(),
    };
    let mut told: Vec<_> = Some(of_group)
        .filter(|it| it.old != it.new)
        .into_iter()
        .collect();
    for (old, new) in &ids.physical {
        let volume = group.member(old).map_or("?", |volume| volume.name());
        told.push(NewUuid {
            of: format!("physical volume {volume}"),
            old: old.to_string(),
            new: new.to_string(),
        });
    }
    told
}
