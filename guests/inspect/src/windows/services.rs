//! The drivers and services that a virtual machine needs: `Services` (Microsoft,
//! "CurrentControlSet\Services registry tree"). The names are those in the `.inf` files of
//! virtio-win.

use serde::Serialize;

use super::hives::Hives;

/// The drivers of virtio devices; some have had two names.
const VIRTIO: [&str; 14] = [
    "viostor",
    "vioscsi",
    "netkvm",
    "vioserial",
    "VirtioSerial",
    "balloon",
    "viorng",
    "viofs",
    "VirtioFsDrv",
    "vioinput",
    "VirtioInput",
    "viogpudo",
    "viosock",
    "pvpanic",
];

/// A driver or a service of Windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WindowsService {
    /// The name, as the guest spells it.
    pub name: String,
    /// The start type.
    pub start: Option<Start>,
    /// The program, as the guest spells it: `system32\DRIVERS\viostor.sys`.
    pub image_path: Option<String>,
}

/// The start type of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Start {
    /// Started by the boot loader: without this driver, Windows does not find its disk.
    Boot,
    /// Started with the kernel.
    System,
    /// Started automatically after the system.
    Automatic,
    /// Started on demand of a device or a program.
    OnDemand,
    /// Never started (disabled).
    Disabled,
}

impl Start {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Boot,
            1 => Self::System,
            2 => Self::Automatic,
            3 => Self::OnDemand,
            4 => Self::Disabled,
            _ => return None,
        })
    }
}

pub(super) fn virtio(hives: &Hives<'_>) -> Vec<WindowsService> {
    let found = VIRTIO
        .iter()
        .filter_map(|name| service(hives, "virtio_drivers", name));
    found.collect()
}

pub(super) fn guest_agent(hives: &Hives<'_>) -> Option<WindowsService> {
    service(hives, "guest_agent", "QEMU-GA")
}

fn service(hives: &Hives<'_>, question: &'static str, name: &str) -> Option<WindowsService> {
    let key = hives.control(&format!(r"Services\{name}"))?;
    let system = hives.system.as_ref()?;
    system.add_source(question);
    Some(WindowsService {
        name: key.name(),
        start: system.number_of(&key, "Start").and_then(Start::of),
        image_path: system.text_of(&key, "ImagePath"),
    })
}
