//! The job of `SetOvmfBootOrder`: the boot order in a file of UEFI variables.

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_varstore::{BootDevice as Device, DeviceKind, DeviceLocation, VariableStore};
use serde::{Deserialize, Serialize};

use super::{Access, JobContext, Phase, Source, enter};

/// Sets the boot order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootOrder {
    /// The file of UEFI variables.
    pub variables: Source,
    /// The devices.
    pub devices: Vec<BootDevice>,
}

/// A device of a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootDevice {
    /// The priority: devices with lower numbers come first.
    pub order: u32,
    /// The kind of the device.
    pub kind: BootDeviceKind,
    /// The number of devices of this kind that are attached before it.
    pub attached: usize,
}

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootDeviceKind {
    /// An optical drive on IDE or SATA.
    Cdrom,
    /// A disk on IDE.
    Ide,
    /// A disk on a SCSI controller.
    Scsi,
    /// An optical drive on a SCSI controller.
    ScsiCdrom,
    /// A disk that is a PCI device itself.
    Pci,
    /// A disk on SATA.
    Sata,
}

/// The size of the largest firmware file, which is far more than any has.
const MAX_BYTES: u64 = 64 << 20;

impl BootOrder {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<()> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.variables, Access::Write)?;
        let in_file = |error: diskfs_block::Error| Error::from(error).in_file(disk.path());
        let device = disk.volume("disk")?.writable_device()?;
        let size_bytes = device.size_bytes();
        let len = usize::try_from(size_bytes).ok();
        let Some(len) = len.filter(|_| size_bytes <= MAX_BYTES) else {
            let reason = format!("the file is too large: {size_bytes} bytes, at most 64 MiB");
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(disk.path()));
        };
        let mut bytes = vec![0; len];
        device.read_at(0, &mut bytes).map_err(in_file)?;
        let mut store = VariableStore::open(bytes).map_err(in_file)?;
        let devices: Vec<Device> = self.devices.iter().map(BootDevice::device).collect();
        let order = store.boot_order_for(&devices).map_err(in_file)?;
        for missing in &order.missing {
            tracing::warn!(
                ?missing,
                "the firmware has no boot entry for the device yet"
            );
        }
        if order.order.is_empty() {
            // A store that no machine has started with has no entries to put in order.
            drop(device);
            return disk.close();
        }
        let edit = store.set_boot_order(&order.order).map_err(in_file)?;
        enter(context, Phase::Write)?;
        for write in &edit.writes {
            device
                .write_at(write.offset, &write.bytes)
                .map_err(in_file)?;
            // The writes are in an order in which the store is consistent after each.
            device.flush().map_err(in_file)?;
        }
        drop(device);
        disk.close()
    }
}

impl BootDevice {
    fn device(&self) -> Device {
        Device {
            order: self.order,
            kind: match self.kind {
                BootDeviceKind::Cdrom => DeviceKind::Cdrom,
                BootDeviceKind::Ide => DeviceKind::Ide,
                BootDeviceKind::Scsi => DeviceKind::Scsi,
                BootDeviceKind::ScsiCdrom => DeviceKind::ScsiCdrom,
                BootDeviceKind::Pci => DeviceKind::Pci,
                BootDeviceKind::Sata => DeviceKind::Sata,
            },
            place: DeviceLocation::Attached(self.attached),
        }
    }
}
