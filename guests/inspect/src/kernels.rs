//! The installed kernels of the guest.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::Serialize;

use super::Depth;
use super::drivers::{self, DriverPlace, initramfs};
use super::files::Files;

/// An installed kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Kernel {
    /// The version: the name of its module directory.
    pub version: String,
    /// The path of the kernel.
    pub path: String,
    /// The path of its initramfs.
    pub initramfs: Option<String>,
    /// The directory of its modules.
    pub modules: Option<String>,
    /// The place of each driver that virtual machines need. Drivers in the initramfs are included
    /// only if the initramfs was unpacked.
    pub drivers: BTreeMap<&'static str, DriverPlace>,
}

/// The prefixes of the names of kernels, before the version.
const KERNELS: [&str; 4] = ["vmlinuz-", "vmlinux-", "kernel-", "Image-"];

/// The prefixes and suffixes of the names of initramfs images, around the version.
const INITRAMFS: [(&str, &str); 5] = [
    ("initrd.img-", ""),
    ("initramfs-", ".img"),
    ("initrd-", ""),
    ("initrd-", ".img"),
    ("initramfs-", ""),
];

/// The directories of modules.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// The limit on initramfs images that are unpacked for one guest, each of which may take seconds.
const MAX_UNPACKED: usize = 16;

/// Returns all kernels in `/boot`, sorted by version.
pub(super) fn of(files: &Files<'_>, depth: Depth) -> Vec<Kernel> {
    const BOOT: &str = "/boot";
    let names = files.names(BOOT);
    let unpacked = Cell::new(0);
    let kernel = |name: &String| {
        let version = KERNELS
            .iter()
            .find_map(|before| name.strip_prefix(before))?;
        let mut beside = INITRAMFS
            .iter()
            .map(|(before, behind)| format!("{before}{version}{behind}"));
        let initramfs = beside.find(|name| names.binary_search(name).is_ok());
        let mut dirs = MODULES.iter().map(|dir| format!("{dir}/{version}"));
        let initramfs = initramfs.map(|name| format!("{BOOT}/{name}"));
        let modules = dirs.find(|dir| files.exists(dir));
        let in_initramfs = match (depth, &initramfs) {
            (Depth::Initramfs, Some(path)) if unpacked.get() < MAX_UNPACKED => {
                unpacked.set(unpacked.get() + 1);
                drivers_in(files, path)
            }
            (Depth::Initramfs, Some(path)) => {
                files.add_problem(path, "not unpacked: too many initramfs images");
                Vec::new()
            }
            _ => Vec::new(),
        };
        Some(Kernel {
            version: version.to_owned(),
            path: format!("{BOOT}/{name}"),
            drivers: drivers::of(files, modules.as_deref(), &in_initramfs),
            initramfs,
            modules,
        })
    };
    let found: Vec<Kernel> = names.iter().filter_map(kernel).collect();
    if !found.is_empty() {
        files.add_source("kernels", BOOT, None);
    }
    found
}

/// Returns the drivers in an initramfs.
fn drivers_in(files: &Files<'_>, path: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let image = files.filesystem().open(path);
    let read = image
        .and_then(|image| initramfs::each_path(image, |name| found.extend(drivers::driver(name))));
    if let Err(error) = read {
        files.add_problem(path, error.reason());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn kernels_with_what_belongs_to_them() {
        let filesystem = guest(&[
            ("/boot/vmlinuz-6.1.0-9-amd64", ""),
            ("/boot/initrd.img-6.1.0-9-amd64", ""),
            ("/boot/vmlinuz-5.14.0-1.el9.x86_64", ""),
            ("/boot/initramfs-5.14.0-1.el9.x86_64.img", ""),
            ("/lib/modules/6.1.0-9-amd64/modules.dep", ""),
            ("/boot/config-6.1.0-9-amd64", ""),
        ]);
        let files = Files::new(&filesystem);
        let found = of(&files, Depth::Files);
        assert_eq!(found.len(), 2);
        let debian = found
            .iter()
            .find(|kernel| kernel.version == "6.1.0-9-amd64")
            .unwrap();
        assert_eq!(
            debian.initramfs.as_deref(),
            Some("/boot/initrd.img-6.1.0-9-amd64")
        );
        assert_eq!(
            debian.modules.as_deref(),
            Some("/lib/modules/6.1.0-9-amd64")
        );
        let rhel = found
            .iter()
            .find(|kernel| kernel.version != "6.1.0-9-amd64")
            .unwrap();
        assert!(rhel.initramfs.is_some() && rhel.modules.is_none());
    }
}
