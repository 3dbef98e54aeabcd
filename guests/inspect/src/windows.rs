//! Facts about a Windows guest from its registry. Every question reads the hives through [`Hives`];
//! the only other files that are read are the headers of two files.
//!
//! Names of keys are those of Microsoft's documentation of the registry and of the services. The
//! sources of undocumented facts (SAM's values) are given where they are read.

mod architecture;
mod drives;
mod hives;
mod host;
mod network;
mod power;
mod programs;
mod release;
mod services;
#[cfg(test)]
mod tests;
mod users;

use serde::Serialize;

pub use drives::Drive;
pub use network::Adapter;
pub use power::Hibernation;
pub use programs::Program;
pub use services::{Start, WindowsService};

use super::files::Files;
use super::{Packages, Report};
use hives::Hives;

/// The facts that only Windows has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Windows {
    /// The system directory: `/Windows`.
    pub system_root: String,
    /// The edition: `Professional`, `ServerStandard`.
    pub edition: Option<String>,
    /// The service pack, in versions that have service packs.
    pub service_pack: Option<String>,
    /// The number of the control set that is used at boot: 1 is `ControlSet001`.
    pub control_set: Option<u32>,
    /// The installed programs.
    pub programs: Vec<Program>,
    /// The drivers for virtio devices.
    pub virtio_drivers: Vec<WindowsService>,
    /// QEMU's guest agent.
    pub guest_agent: Option<WindowsService>,
    /// The configured network interfaces.
    pub interfaces: Vec<Adapter>,
    /// The drive letters and their volumes.
    pub drives: Vec<Drive>,
    /// The time of the last shutdown (RFC 3339).
    pub last_shutdown: Option<String>,
    /// The state of the hibernation file.
    pub hibernation: Option<Hibernation>,
    /// True if a shutdown hibernates the kernel ("fast startup").
    pub fast_startup: Option<bool>,
}

/// Returns the report with the facts about Windows, or unchanged if the guest is another system.
pub(super) fn answered(files: &Files<'_>, report: Report) -> Report {
    let Some(hives) = Hives::find(files) else {
        return report;
    };
    let architecture = architecture::of(&hives);
    let programs = programs::of(&hives, architecture.as_deref());
    let packages = packages(programs.as_deref());
    let windows = windows(&hives, programs);
    Report {
        release: release::of(&hives),
        architecture,
        hostname: host::name(&hives),
        machine_id: host::machine_id(&hives),
        timezone: host::timezone(&hives),
        locale: host::locale(&hives),
        users: users::of(&hives),
        network: network::as_of_all_systems(&windows.interfaces, hives.system_path()),
        packages,
        windows: Some(windows),
        ..report
    }
}

fn windows(hives: &Hives<'_>, programs: Option<Vec<Program>>) -> Windows {
    Windows {
        system_root: hives.root().to_owned(),
        edition: release::edition(hives),
        service_pack: release::service_pack(hives),
        control_set: hives.control_set(),
        programs: programs.unwrap_or_default(),
        virtio_drivers: services::virtio(hives),
        guest_agent: services::guest_agent(hives),
        interfaces: network::of(hives),
        drives: drives::of(hives),
        last_shutdown: power::last_shutdown(hives),
        hibernation: power::hibernation(hives),
        fast_startup: power::fast_startup(hives),
    }
}

fn packages(programs: Option<&[Program]>) -> Packages {
    let package = |program: &Program| super::Package {
        name: program.name.clone(),
        version: program.version.clone().unwrap_or_default(),
        architecture: program.architecture.clone().unwrap_or_default(),
        ..super::Package::default()
    };
    Packages {
        format: Some("windows"),
        manager: None,
        installed: programs.map(|programs| programs.iter().map(package).collect()),
    }
}
