//! Which entry starts which device of a virtual machine.
//!
//! The firmware makes an entry for each device, with the device's path and a name of its own ("UEFI QEMU
//! DVD-ROM QM00005 ", "UEFI Misc Device"). What a device is, its path's last step says; whether it is a drive for
//! discs, only the name does.

use diskfs_block::Result;
use diskfs_block::bytes::{le16, le32};

use super::once_each;
use crate::device_path::{Node, node_type};
use crate::{DevicePath, LoadOption, VariableStore};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A drive for discs, IDE or SATA.
    Cdrom,
    /// A disk on IDE.
    Ide,
    /// A disk on a SCSI controller.
    Scsi,
    /// A drive for discs on a SCSI controller.
    ScsiCdrom,
    /// A disk that is a PCI device itself: virtio-blk.
    Pci,
    /// A disk on SATA.
    Sata,
}

/// Which one of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// So many of its kind come before it, in the order in which they are attached: by PCI device and function,
    /// then by channel, port or target, then by unit.
    Attached(usize),
    /// The PCI device and function, of itself or of its controller.
    Pci {
        /// The device.
        device: u8,
        /// The function.
        function: u8,
    },
    /// The unit of its controller, of which there is one: the drive on IDE (two times the channel, and one for
    /// a slave), the port of SATA, the target of SCSI; with the logical unit.
    Unit {
        /// The drive, port or target.
        unit: u16,
        /// The logical unit.
        lun: u16,
    },
}

/// A device that shall have a place in the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootDevice {
    /// Devices with lower ones come first; of equals, the one that is named first.
    pub order: u32,
    /// What it is.
    pub kind: DeviceKind,
    /// Which one of its kind.
    pub place: Place,
}

/// Which entries start the devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matched {
    /// The whole order: entries of devices, then all that were in it before.
    pub order: Vec<u16>,
    /// Devices without an entry: the firmware has not seen them yet.
    pub missing: Vec<BootDevice>,
}

/// A step where there may be several: its type, and numbers in it.
type Step = (u8, u16, u16, u16);

/// An entry that starts a device.
#[derive(Debug, Clone)]
struct Candidate {
    number: u16,
    kind: DeviceKind,
    steps: Vec<Step>,
}

impl VariableStore {
    /// The boot order for devices, for [`set_boot_order`](Self::set_boot_order). Each entry is for one device,
    /// and of those with one path the first counts.
    ///
    /// # Errors
    /// `Corrupt` for a broken `BootOrder`.
    pub fn boot_order_for(&self, devices: &[BootDevice]) -> Result<Matched> {
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
        Ok(Matched {
            order: once_each(order),
            missing,
        })
    }

    /// In the order in which devices are attached.
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
            Place::Attached(before) => of_kind.nth(before),
            Place::Pci { device, function } => of_kind.find(|found| found.is_at(device, function)),
            Place::Unit { unit, lun } => of_kind.find(|found| found.is_unit(unit, lun)),
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

/// What a device is whose path ends with `last`.
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

/// The numbers of all steps; `None` for a path with others.
fn steps(path: &DevicePath) -> Option<Vec<Step>> {
    path.nodes.iter().map(step).collect()
}

fn step(node: &Node) -> Option<Step> {
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
