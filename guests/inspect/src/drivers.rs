//! The virtio, `NVMe` and Xen drivers of each kernel, which decide whether it boots on another
//! hypervisor.

pub(super) mod initramfs;

use std::collections::BTreeMap;

use serde::Serialize;

use super::files::Files;

/// The size limit of a list of modules: 10,000 modules with paths of 60 bytes, and the same again
/// for other fields.
const LIST_BYTES: u64 = 16 << 20;

/// The drivers that the disks, network and buses of a virtual machine need, by module name (with
/// `_` for `-`).
pub(super) const DRIVERS: [&str; 9] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_scsi",
    "virtio_net",
    "virtio_balloon",
    "virtio_console",
    "nvme",
    "xen_blkfront",
    "xen_netfront",
];

/// The place of a kernel's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DriverPlace {
    /// The driver is built into the kernel.
    BuiltIn,
    /// The driver is in the initramfs, so the root filesystem can be on its device.
    Initramfs,
    /// The driver is a module on the root filesystem: it is available once that is mounted.
    Module,
}

/// Returns the drivers of a kernel, from its module directory and from the drivers found in its
/// initramfs.
pub(super) fn of(
    files: &Files<'_>,
    modules: Option<&str>,
    in_initramfs: &[&'static str],
) -> BTreeMap<&'static str, DriverPlace> {
    let mut found = BTreeMap::new();
    let mut take = |list: &str, place| {
        let path = modules.map(|modules| format!("{modules}/{list}"));
        let text = path.and_then(|path| files.bytes(&path, LIST_BYTES));
        let text = text.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // A line of modules.dep: `kernel/drivers/block/virtio_blk.ko.xz: kernel/...`
        let paths = text
            .lines()
            .filter_map(|line| line.split([':', ' ']).next());
        for driver in paths.filter_map(driver) {
            found.insert(driver, place);
        }
    };
    take("modules.dep", DriverPlace::Module);
    take("modules.builtin", DriverPlace::BuiltIn);
    for driver in in_initramfs {
        let place = found.entry(driver).or_insert(DriverPlace::Initramfs);
        if *place == DriverPlace::Module {
            *place = DriverPlace::Initramfs;
        }
    }
    found
}

/// Returns the driver whose module a file is.
pub(super) fn driver(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let (name, _) = name.split_once(".ko")?;
    let name = name.replace('-', "_");
    DRIVERS.into_iter().find(|driver| *driver == name)
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn where_each_driver_is() {
        let tree = guest(&[
            (
                "/lib/modules/1/modules.dep",
                "kernel/drivers/block/virtio_blk.ko.xz: kernel/x/virtio_net.ko\nkernel/drivers/block/xen-blkfront.ko:\nkernel/y/virtio_balloon_x.ko:\n",
            ),
            (
                "/lib/modules/1/modules.builtin",
                "kernel/drivers/nvme/host/nvme.ko\n",
            ),
        ]);
        let found = of(
            &Files::new(&tree),
            Some("/lib/modules/1"),
            &["virtio_blk", "nvme"],
        );
        let expected = [
            ("nvme", DriverPlace::BuiltIn),
            ("virtio_blk", DriverPlace::Initramfs),
            ("xen_blkfront", DriverPlace::Module),
        ];
        assert_eq!(found, expected.into());
    }
}
