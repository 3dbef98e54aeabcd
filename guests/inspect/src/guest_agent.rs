//! QEMU's guest agent.

use serde::Serialize;

use super::files::Files;
use super::packages::Packages;

const PROGRAMS: [&str; 3] = [
    "/usr/sbin/qemu-ga",
    "/usr/bin/qemu-ga",
    "/usr/local/bin/qemu-ga",
];

/// What packages of it are called.
const PACKAGES: [&str; 2] = ["qemu-guest-agent", "qemu-ga"];

/// QEMU's guest agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GuestAgent {
    /// The program.
    pub path: String,
    /// The version, where its package says it.
    pub version: Option<String>,
}

/// What there is of it.
pub(super) fn of(files: &Files<'_>, packages: &Packages) -> Option<GuestAgent> {
    let path = PROGRAMS.iter().find(|path| files.is_file(path))?;
    files.came_from("guest_agent", path, None);
    Some(GuestAgent {
        path: (*path).to_owned(),
        version: PACKAGES.iter().find_map(|name| packages.version_of(name)),
    })
}
