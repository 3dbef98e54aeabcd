//! The kernels that the guest has.

use serde::Serialize;

use super::files::Files;

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Its version, as its modules' directory is called.
    pub version: String,
    /// The file.
    pub path: String,
    /// Its first filesystem, where there is one.
    pub initramfs: Option<String>,
    /// The directory of its modules, where there is one.
    pub modules: Option<String>,
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

/// All kernels in `/boot`, by their versions' names.
pub(super) fn of(files: &Files<'_>) -> Vec<Kernel> {
    const BOOT: &str = "/boot";
    let names = files.names(BOOT);
    let kernel = |name: &String| {
        let version = KERNELS
            .iter()
            .find_map(|before| name.strip_prefix(before))?;
        let mut beside = INITRAMFS
            .iter()
            .map(|(before, behind)| format!("{before}{version}{behind}"));
        let initramfs = beside.find(|name| names.binary_search(name).is_ok());
        let mut dirs = MODULES.iter().map(|dir| format!("{dir}/{version}"));
        Some(Kernel {
            version: version.to_owned(),
            path: format!("{BOOT}/{name}"),
            initramfs: initramfs.map(|name| format!("{BOOT}/{name}")),
            modules: dirs.find(|dir| files.exists(dir)),
        })
    };
    let found: Vec<Kernel> = names.iter().filter_map(kernel).collect();
    if !found.is_empty() {
        files.came_from("kernels", BOOT, None);
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
        let found = of(&files);
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
