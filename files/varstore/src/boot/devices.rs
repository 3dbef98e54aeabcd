//! Matching of boot entries with the devices of a virtual machine.
//!
//! The firmware makes an entry for each device, with the device's path and a generated name ("UEFI
//! QEMU DVD-ROM QM00005 ", "UEFI Misc Device"). The last node of the path determines the kind of
//! device, but only the name says whether it is an optical drive.

use diskfs_block::Result;
use diskfs_block::bytes::{le16, le32};

use super::once_each;
use crate::device_path::{Node, node_type};
use crate::{DevicePath, LoadOption, VariableStore};

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// An optical drive on IDE or SATA.
    Cdrom,
    /// A disk on IDE.
    Ide,
    /// A disk on a SCSI controller.
    Scsi,
    /// An optical drive on a SCSI controller.
    ScsiCdrom,
    /// A disk that is a PCI device itself: virtio-blk.
    Pci,
    /// A disk on SATA.
    Sata,
}

/// The location of a device among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceLocation {
    /// The number of devices of its kind that are attached before it. The order is by PCI device
    /// and function, then by channel, port or target, then by unit.
    Attached(usize),
    /// The PCI device and function of the device or of its controller.
    Pci {
        /// The PCI device number.
        device: u8,
        /// The PCI function number.
        function: u8,
    },
    /// The unit on its controller, if there is one controller only. On IDE it is the drive (twice
    /// the channel, plus one for the slave), on SATA the port, on SCSI the target.
    Unit {
        /// The drive, port or target.
        unit: u16,
        /// The logical unit number.
        lun: u16,
    },
}

/// A device for the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootDevice {
    /// The priority: devices with lower numbers come first. If numbers are equal, the order of the
    /// list decides.
    pub order: u32,
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The location of the device.
    pub place: DeviceLocation,
}

/// The entries that start the devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceBootOrder {
    /// The whole boot order: the entries of the devices, then all entries of the current order.
    pub order: Vec<u16>,
    /// The devices without an entry: the firmware has not detected them yet.
    pub missing: Vec<BootDevice>,
}

/// A node of a path with controllers or units: its type, and the numbers in it.
type PathStep = (u8, u16, u16, u16);

/// An entry that starts a device.
#[derive(Debug, Clone)]
struct Candidate {
    number: u16,
    kind: DeviceKind,
    steps: Vec<PathStep>,
}

impl VariableStore {
    /// Returns the boot order for devices, for use with [`set_boot_order`](Self::set_boot_order).
    /// Each entry matches one device, and of several entries with the same path only the first is
    /// used.
    ///
    /// # Errors
    /// `Corrupt` if `BootOrder` is invalid.
    pub fn boot_order_for(&self, devices: &[BootDevice]) -> Result<DeviceBootOrder> {
        let candidates = self.candidates();
        let mut devices = devices.to_vec();
        devices.sort_by_key(|device| device.order);
        let (mut first, mut missing) = (Vec::new(), Vec::new());
        for device in devices {
            match device.find(&candidates) {
                Some(number) => first.push(number),
                None => missing.push(device),
            }
        }
        let order = first.into_iter().chain(self.boot_order()?);
        Ok(DeviceBootOrder {
            order: once_each(order),
            missing,
        })
    }

    /// Returns the entries of devices, in the order in which the devices are attached.
    fn candidates(&self) -> Vec<Candidate> {
        let entries = self.boot_entries().into_iter();
        let candidates =
            entries.filter_map(|entry| Candidate::new(entry.number, &entry.option.ok()?));
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_by(|a, b| (&a.steps, a.number).cmp(&(&b.steps, b.number)));
        candidates.dedup_by(|a, b| a.steps == b.steps && a.kind == b.kind);
        candidates
    }
}

impl BootDevice {
    fn find(&self, candidates: &[Candidate]) -> Option<u16> {
        let mut of_kind = candidates
            .iter()
            .filter(|candidate| candidate.kind == self.kind);
        let found = match self.place {
            DeviceLocation::Attached(before) => of_kind.nth(before),
            DeviceLocation::Pci { device, function } => {
                of_kind.find(|found| found.is_at(device, function))
            }
            DeviceLocation::Unit { unit, lun } => of_kind.find(|found| found.is_unit(unit, lun)),
        };
        found.map(|found| found.number)
    }
}

impl Candidate {
    fn new(number: u16, option: &LoadOption) -> Option<Self> {
        let path = option.path()?;
        Some(Self {
            number,
            kind: kind(path.nodes.last()?, &option.description)?,
            steps: steps(path)?,
        })
    }

    fn is_at(&self, device: u8, function: u8) -> bool {
        let mut steps = self.steps.iter().rev();
        let last = steps.find(|(step_type, ..)| *step_type == node_type::HARDWARE);
        last.is_some_and(|&(_, d, f, _)| (d, f) == (device.into(), function.into()))
    }

    fn is_unit(&self, unit: u16, lun: u16) -> bool {
        let last = self.steps.last();
        last.is_some_and(|&(_, of_unit, _, of_lun)| (of_unit, of_lun) == (unit, lun))
    }
}

/// Returns the kind of a device whose path ends with `last`.
fn kind(last: &Node, name: &str) -> Option<DeviceKind> {
    let is_for_discs = name.contains("DVD-ROM") || name.contains("CD-ROM");
    match (last.node_type, last.subtype, is_for_discs) {
        (node_type::HARDWARE, 1, _) => Some(DeviceKind::Pci),
        (node_type::MESSAGING, 0x01 | 0x12, true) => Some(DeviceKind::Cdrom),
        (node_type::MESSAGING, 0x01, false) => Some(DeviceKind::Ide),
        (node_type::MESSAGING, 0x12, false) => Some(DeviceKind::Sata),
        (node_type::MESSAGING, 0x02, true) => Some(DeviceKind::ScsiCdrom),
        (node_type::MESSAGING, 0x02, false) => Some(DeviceKind::Scsi),
        _ => None,
    }
}

/// Returns the numbers of all nodes; `None` for a path with other types of nodes.
fn steps(path: &DevicePath) -> Option<Vec<PathStep>> {
    path.nodes.iter().map(step).collect()
}

fn step(node: &Node) -> Option<PathStep> {
    let data = &*node.data;
    let byte = |at: usize| data.get(at).copied().map(u16::from);
    let (a, b, c) = match (node.node_type, node.subtype) {
        (node_type::HARDWARE, 1) => (byte(1)?, byte(0)?, 0),
        (node_type::ACPI, 1) => (u16::try_from(le32(data, 4)?).ok()?, 0, 0),
        (node_type::MESSAGING, 0x01) => {
            let drive = byte(0)?.checked_mul(2)?.checked_add(byte(1)?)?;
            (drive, 0, le16(data, 2)?)
        }
        (node_type::MESSAGING, 0x02) => (le16(data, 0)?, 0, le16(data, 2)?),
        (node_type::MESSAGING, 0x12) => (le16(data, 0)?, le16(data, 2)?, le16(data, 4)?),
        _ => return None,
    };
    Some((node.node_type, a, b, c))
}
