//! Files of a guest that name UUIDs of volumes.

use super::super::super::guest::Guest;
use super::super::super::volumes::NewUuid;
use super::operations::files;
use diskfs_disk::Result;

/// Text files that name volumes by UUID: what mounts them, what boots from them, what looks for them.
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

/// Replaces old UUIDs by new ones, with and without dashes, wherever the guest's settings name them.
pub(super) fn replace(guest: &mut Guest, uuids: &[NewUuid]) -> Result<()> {
    if uuids.is_empty() {
        return Ok(());
    }
    for path in files(guest, FILES)? {
        let Some(old) = guest.stage.text(&path)? else {
            continue;
        };
        let mut new = old.clone();
        for uuid in uuids {
            new = new.replace(&uuid.old, &uuid.new);
            new = new.replace(&without_dashes(&uuid.old), &without_dashes(&uuid.new));
        }
        if new != old {
            guest.stage.write_text(&path, &new)?;
        }
    }
    Ok(())
}

fn without_dashes(uuid: &str) -> String {
    uuid.replace('-', "")
}
