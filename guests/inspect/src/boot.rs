//! The boot configuration of the guest: firmware, boot loader, kernel command line.

mod bls;
mod extlinux;
mod grub;

use serde::Serialize;

use super::files::Files;

/// The boot configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Boot {
    /// The types of firmware that can boot the guest: `bios`, `uefi`, or both.
    pub firmware: Vec<Firmware>,
    /// The installed boot loaders: `grub2`, `systemd-boot`, `extlinux`, ...
    pub loaders: Vec<&'static str>,
    /// The boot entry that starts by default.
    pub default: Option<Entry>,
}

/// A type of firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Firmware {
    /// The BIOS of a PC.
    Bios,
    /// UEFI firmware.
    Uefi,
}

/// An entry in the menu of a boot loader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Entry {
    /// The title in the menu.
    pub title: Option<String>,
    /// The path of the kernel in the boot loader's configuration, from the root of its filesystem.
    pub kernel: Option<String>,
    /// The path of the initramfs in the boot loader's configuration.
    pub initramfs: Option<String>,
    /// The kernel command line.
    pub command_line: String,
}

/// The files by which a boot loader is recognised; the first path of each that exists counts.
const LOADERS: [(&str, &[&str]); 8] = [
    (
        "grub2",
        &[
            "/boot/grub/grub.cfg",
            "/boot/grub2/grub.cfg",
            "/boot/grub/i386-pc",
            "/boot/grub2/i386-pc",
        ],
    ),
    ("grub", &["/boot/grub/menu.lst", "/boot/grub/grub.conf"]),
    (
        "systemd-boot",
        &[
            "/boot/loader/loader.conf",
            "/boot/efi/loader/loader.conf",
            "/efi/loader/loader.conf",
        ],
    ),
    (
        "extlinux",
        &[
            "/boot/extlinux/extlinux.conf",
            "/boot/extlinux.conf",
            "/boot/syslinux/syslinux.cfg",
        ],
    ),
    ("lilo", &["/etc/lilo.conf"]),
    ("zipl", &["/etc/zipl.conf"]),
    ("u-boot", &["/boot/boot.scr", "/boot/uEnv.txt"]),
    ("freebsd", &["/boot/loader.efi", "/boot/kernel/kernel"]),
];

/// The boot loaders that start from a BIOS.
const BIOS: [&str; 8] = [
    "/boot/grub/i386-pc",
    "/boot/grub2/i386-pc",
    "/boot/grub/stage2",
    "/boot/extlinux/ldlinux.sys",
    "/boot/extlinux.conf",
    "/boot/syslinux/ldlinux.sys",
    "/boot/map",
    "/boot/pmbr",
];

/// The places of the directory `EFI` of the EFI system partition; its subdirectories contain the
/// UEFI boot loaders.
const EFI: [&str; 4] = ["/boot/efi/EFI", "/efi/EFI", "/boot/EFI", "/boot/efi/efi"];

/// Reads the boot configuration.
pub(super) fn of(files: &Files<'_>) -> Boot {
    let loaders = LOADERS.iter().filter_map(|(name, places)| {
        let place = places.iter().find(|path| files.exists(path))?;
        files.add_source("boot", place, None);
        Some(*name)
    });
    let readers = [
        bls::default_entry,
        grub::default_entry,
        extlinux::default_entry,
    ];
    let environment = grub::environment(files);
    Boot {
        loaders: loaders.collect(),
        firmware: firmware(files),
        default: readers.iter().find_map(|read| read(files, &environment)),
    }
}

fn firmware(files: &Files<'_>) -> Vec<Firmware> {
    let bios = BIOS.iter().find(|path| files.exists(path));
    let efi = EFI.iter().find(|dir| has_program(files, dir));
    for place in bios.into_iter().chain(efi) {
        files.add_source("boot", place, None);
    }
    let found = [bios.map(|_| Firmware::Bios), efi.map(|_| Firmware::Uefi)];
    found.into_iter().flatten().collect()
}

/// Returns true if a subdirectory of `dir` contains a UEFI program.
fn has_program(files: &Files<'_>, dir: &str) -> bool {
    let is_program = |name: &String| name.to_ascii_lowercase().ends_with(".efi");
    let vendors = files.names(dir);
    let mut dirs = vendors.iter().map(|vendor| format!("{dir}/{vendor}"));
    dirs.any(|vendor| files.names(&vendor).iter().any(is_program))
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn what_starts_under_which_firmware() {
        let grub = "menuentry 'Linux' {\n linux /vmlinuz root=UUID=1 ro\n}\n";
        for (tree, firmware, loaders) in [
            (
                &[
                    ("/boot/grub/i386-pc/core.img", ""),
                    ("/boot/grub/grub.cfg", grub),
                ][..],
                &[Firmware::Bios][..],
                &["grub2"][..],
            ),
            (
                &[
                    ("/boot/efi/EFI/debian/shimx64.efi", ""),
                    ("/boot/grub/grub.cfg", grub),
                ],
                &[Firmware::Uefi],
                &["grub2"],
            ),
            (
                &[
                    ("/boot/efi/EFI/BOOT/BOOTX64.EFI", ""),
                    ("/boot/grub2/i386-pc/core.img", ""),
                ],
                &[Firmware::Bios, Firmware::Uefi],
                &["grub2"],
            ),
            (
                &[
                    ("/boot/efi/EFI/empty/x.txt", ""),
                    ("/boot/loader/loader.conf", ""),
                ],
                &[],
                &["systemd-boot"],
            ),
        ] {
            let tree = guest(tree);
            let found = of(&Files::new(&tree));
            assert_eq!(found.firmware, firmware);
            assert_eq!(found.loaders, loaders);
        }
    }
}
