//! How the guest is started: by which firmware, by which loader, with which command line.

mod bls;
mod extlinux;
mod grub;

use serde::Serialize;

use super::files::Files;

/// How it is started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Boot {
    /// The firmware that finds something to start: `bios`, `uefi`, or both.
    pub firmware: Vec<Firmware>,
    /// The loaders: `grub2`, `systemd-boot`, `extlinux`, ...
    pub loaders: Vec<&'static str>,
    /// The entry that is started when nobody chooses.
    pub default: Option<Entry>,
}

/// A firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Firmware {
    /// The PC's of old.
    Bios,
    /// UEFI.
    Uefi,
}

/// Something to start, as a loader has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Entry {
    /// Its name for people.
    pub title: Option<String>,
    /// The kernel's file, as the loader names it: from the root of the filesystem that it is on.
    pub kernel: Option<String>,
    /// The first filesystem's.
    pub initramfs: Option<String>,
    /// The kernel's command line.
    pub command_line: String,
}

/// Where a loader is when it is there; the first path of each that exists counts.
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

/// What starts under a BIOS when it is there.
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

/// Where the EFI system partition is mounted; what is in its directory `EFI` starts.
const EFI: [&str; 4] = ["/boot/efi/EFI", "/efi/EFI", "/boot/EFI", "/boot/efi/efi"];

/// Reads it.
pub(super) fn of(files: &Files<'_>) -> Boot {
    let loaders = LOADERS.iter().filter_map(|(name, places)| {
        let place = places.iter().find(|path| files.exists(path))?;
        files.came_from("boot", place, None);
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
        files.came_from("boot", place, None);
    }
    let found = [bios.map(|_| Firmware::Bios), efi.map(|_| Firmware::Uefi)];
    found.into_iter().flatten().collect()
}

/// Whether one of the directories in this one has a program of UEFI.
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
