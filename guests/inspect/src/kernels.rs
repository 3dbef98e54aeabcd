//! The kernels that the guest has.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::Serialize;

use super::Depth;
use super::drivers::{self, DriverPlace, initramfs};
use super::files::Files;

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Kernel {
    /// Its version, as its modules' directory is called.
    pub version: String,
    /// The file.
    pub path: String,
    /// Its first filesystem, where there is one.
    pub initramfs: Option<String>,
    /// The directory of its modules, where there is one.
    pub modules: Option<String>,
    /// The drivers that it has of those that virtual machines need, and where each is. What is in the first filesystem
    /// is only told where that is read, too ([`Depth::Initramfs`]).
    pub drivers: BTreeMap<&'static str, DriverPlace>,
}

/// What kernels' files are called before their versions.
const KERNELS: [&str; 4] = ["vmlinuz-", "vmlinux-", "kernel-", "Image-"];

/// What their first filesystems are called: before the version, and behind it.
const INITRAMFS: [(&str, &str); 5] = [
    ("initrd.img-", ""),
    ("initramfs-", ".img"),
    ("initrd-", ""),
    ("initrd-", ".img"),
    ("initramfs-", ""),
];

/// Where modules are.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// First filesystems that are unpacked of one guest, of which each may take seconds.
const MAX_UNPACKED: usize = 16;

/// All kernels in `/boot`, by their versions' names.
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
                files.complain(path, "it is not unpacked: there are too many");
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
        files.came_from("kernels", BOOT, None);
    }
    found
}

/// The drivers in a first filesystem.
fn drivers_in(files: &Files<'_>, path: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let image = files.filesystem().open(path);
    let read = image
        .and_then(|image| initramfs::each_path(image, |name| found.extend(drivers::driver(name))));
    if let Err(error) = read {
        files.complain(path, error.reason());
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
