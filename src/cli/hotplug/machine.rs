//! The places of a virtual machine where a disk can be attached.

use clap::ValueEnum;
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::qmp::Qmp;

/// The bus of a hotplugged disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Bus {
    /// A virtio-scsi controller, which the machine has already
    Scsi,
    /// A PCI Express root port that is free
    Virtio,
}

impl Bus {
    /// Returns the driver of the disk's device.
    pub(super) const fn driver(self) -> &'static str {
        match self {
            Self::Scsi => "scsi-hd",
            Self::Virtio => "virtio-blk-pci",
        }
    }

    /// Returns the name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Scsi => "scsi",
            Self::Virtio => "virtio",
        }
    }
}

/// The most devices that are looked at: more than any machine has.
const MAX_DEVICES: usize = 4096;

/// A device of the machine.
struct Device {
    id: Option<String>,
    /// The path in QEMU's object tree.
    path: String,
    /// The type.
    kind: String,
}

/// Returns the bus for a new disk, by its name in QEMU; `None` lets QEMU choose.
pub(super) fn place(qmp: &mut Qmp, bus: Bus) -> Result<Option<String>> {
    let devices = devices(qmp)?;
    match bus {
        Bus::Scsi => scsi_bus(&devices),
        Bus::Virtio => free_port(qmp, &devices).map(Some),
    }
}

/// Returns true if the machine has a device with this ID.
pub(super) fn has_device(qmp: &mut Qmp, id: &str) -> Result<bool> {
    let devices = devices(qmp)?;
    Ok(devices
        .iter()
        .any(|device| device.id.as_deref() == Some(id)))
}

/// Returns the type of the device with this ID.
pub(super) fn kind_of(qmp: &mut Qmp, id: &str) -> Result<Option<String>> {
    let devices = devices(qmp)?;
    let found = devices
        .into_iter()
        .find(|device| device.id.as_deref() == Some(id));
    Ok(found.map(|device| device.kind))
}

/// Lists the devices that were given on the command line or attached.
fn devices(qmp: &mut Qmp) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for (path, has_ids) in [
        ("/machine/peripheral", true),
        ("/machine/peripheral-anon", false),
    ] {
        let listed = qmp.must("qom-list", &json!({ "path": path }))?;
        for entry in listed.as_array().into_iter().flatten() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let kind = text("type").and_then(|kind| kind.strip_prefix("child<"));
            let kind = kind.and_then(|kind| kind.strip_suffix('>'));
            if let Some(kind) = kind {
                let name = text("name").unwrap_or_default();
                devices.push(Device {
                    id: has_ids.then(|| name.to_owned()),
                    path: format!("{path}/{name}"),
                    kind: kind.to_owned(),
                });
            }
        }
    }
    devices.truncate(MAX_DEVICES);
    Ok(devices)
}

fn scsi_bus(devices: &[Device]) -> Result<Option<String>> {
    let mut controllers = devices
        .iter()
        .filter(|device| device.kind.starts_with("virtio-scsi"));
    let Some(controller) = controllers.next() else {
        let reason = "the virtual machine has no virtio-scsi controller";
        let error = Error::new(ErrorKind::Unsupported, reason);
        return Err(
            error.with_hint("start QEMU with `-device virtio-scsi-pci`, or give --bus virtio")
        );
    };
    // The bus of a controller is named after its ID.
    Ok(controller.id.as_ref().map(|id| format!("{id}.0")))
}

/// Returns the first root port without a device. `query-pci` does not show what is behind a port before
/// the firmware has numbered the buses; the object tree does.
fn free_port(qmp: &mut Qmp, devices: &[Device]) -> Result<String> {
    let mut buses = Vec::new();
    for device in devices {
        let property = json!({ "path": device.path, "property": "parent_bus" });
        // Not every object is on a bus.
        if let Ok(Value::String(bus)) = qmp.execute("qom-get", &property)? {
            buses.push(bus);
        }
    }
    let ports = devices
        .iter()
        .filter(|device| device.kind.ends_with("root-port"));
    for port in ports {
        let below = format!("{}/", port.path);
        let is_free = !buses.iter().any(|bus| bus.starts_with(&below));
        if let Some(id) = port.id.as_ref().filter(|_| is_free) {
            return Ok(id.clone());
        }
    }
    let reason = "the virtual machine has no free PCI Express root port with an ID";
    let error = Error::new(ErrorKind::Unsupported, reason);
    Err(error.with_hint(
        "start QEMU with `-machine q35 -device pcie-root-port,id=ID,chassis=N`, or give --bus scsi",
    ))
}
