//! Replacement of UUIDs in the configuration files of a guest.

use super::super::super::guest::Guest;
use super::super::super::volumes::NewUuid;
use diskfs_disk::Result;
use uuid::Uuid;

/// Text files that refer to volumes by UUID, for mounting, booting and finding them.
const FILES: &[&str] = &[
    "/etc/fstab",
    "/etc/crypttab",
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/kernel/cmdline",
    "/etc/initramfs-tools/conf.d/*",
    "/etc/dracut.conf",
    "/etc/dracut.conf.d/*.conf",
    "/etc/lvm/lvm.conf",
    "/etc/lvm/lvmlocal.conf",
    "/etc/lvm/devices/*.devices",
    "/etc/systemd/system/*.mount",
    "/etc/systemd/system/*.automount",
    "/etc/systemd/system/*.swap",
    "/boot/grub/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub/custom.cfg",
    "/boot/grub/menu.lst",
    "/boot/grub/grub.conf",
    "/boot/grub2/grub.cfg",
    "/boot/grub2/grubenv",
    "/boot/grub2/custom.cfg",
    "/boot/loader/entries/*.conf",
    "/boot/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
    "/boot/refind_linux.conf",
    "/boot/efi/EFI/*/grub.cfg",
    "/boot/efi/EFI/*/grubenv",
    "/boot/efi/loader/entries/*.conf",
    "/efi/EFI/*/grub.cfg",
    "/efi/loader/entries/*.conf",
    "/boot/EFI/*/grub.cfg",
];

/// Replaces old UUIDs by new ones, with and without dashes, in all these files of the guest.
pub(super) fn replace(guest: &mut Guest, uuids: &[NewUuid]) -> Result<()> {
    if uuids.is_empty() {
        return Ok(());
    }
    for pattern in FILES {
        for path in guest.stage.expand(pattern)? {
            if guest.stage.is_file(&path)? {
                replace_in(guest, &path, uuids)?;
            }
        }
    }
    Ok(())
}

fn replace_in(guest: &mut Guest, path: &str, uuids: &[NewUuid]) -> Result<()> {
    let old = guest.stage.text(path)?.unwrap_or_default();
    let mut new = old.clone();
    for NewUuid { old, new: by, .. } in uuids {
        new = new.replace(old, by);
        new = new.replace(&without_dashes(old), &without_dashes(by));
        // UUIDs of filesystems are hexadecimal numbers, in lower or upper case.
        if Uuid::parse_str(old).is_ok() {
            new = new.replace(&old.to_uppercase(), by);
        }
    }
    if new == old {
        return Ok(());
    }
    guest.stage.write_text(path, &new)
}

fn without_dashes(uuid: &str) -> String {
    uuid.replace('-', "")
}
