//! QEMU's guest agent.

use serde::Serialize;

use super::files::Files;
use super::packages::Packages;

const PROGRAMS: [&str; 3] = [
    "/usr/sbin/qemu-ga",
    "/usr/bin/qemu-ga",
    "/usr/local/bin/qemu-ga",
];

/// The names of its package.
const PACKAGES: [&str; 2] = ["qemu-guest-agent", "qemu-ga"];

/// QEMU's guest agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GuestAgent {
    /// The path of the program.
    pub path: String,
    /// The version, from the package database.
    pub version: Option<String>,
}

/// Returns the guest agent, if it is installed.
pub(super) fn of(files: &Files<'_>, packages: &Packages) -> Option<GuestAgent> {
    let path = PROGRAMS.iter().find(|path| files.is_file(path))?;
    files.add_source("guest_agent", path, None);
    Some(GuestAgent {
        path: (*path).to_owned(),
        version: PACKAGES.iter().find_map(|name| packages.version_of(name)),
    })
}
