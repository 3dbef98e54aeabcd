//! The JSON output of commands that work on the program itself, and on UEFI variables.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;

/// The document of `diskfs uefi --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Uefi {
    /// The header with the version and the command.
    diskfs: Header,
    /// The boot entries.
    entries: Vec<BootEntry>,
    /// The numbers of the boot entries, in their order.
    boot_order: Vec<String>,
    /// The boot entry of the next start only.
    boot_next: Option<String>,
    /// All variables in the flash file.
    variables: Vec<Variable>,
}

/// A boot entry of UEFI.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct BootEntry {
    /// The number of the entry.
    number: String,
    /// The description of the entry.
    description: String,
    /// The UEFI device path of the entry.
    path: String,
    /// True if the entry is active.
    active: bool,
}

/// A variable of UEFI.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Variable {
    /// The name of the variable.
    name: String,
    /// The GUID of the vendor.
    vendor: String,
    /// The size of the value.
    size_bytes: u64,
}

/// The document of `diskfs appliance --json`, with one member that depends on the action.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Appliance {
    /// The output of `build`.
    Built(ApplianceBuilt),
    /// The output of `show`.
    Shown(ApplianceShown),
    /// The output of `test`.
    Tested(ApplianceTested),
    /// The output of `path`.
    Path(AppliancePath),
}

/// A part of an appliance that was built.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceBuilt {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path, the sizes and the contents of what was built.
    built: BTreeMap<String, Value>,
}

/// The parts of the appliance that were found.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceShown {
    /// The header with the version and the command.
    diskfs: Header,
    /// The parts of the appliance.
    appliance: ApplianceParts,
}

/// The parts of the appliance that were found.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ApplianceParts {
    /// The kernels and programs, by the backend that runs them.
    kernels: BTreeMap<String, AppliancePart>,
    /// The directories that were searched.
    places: Vec<String>,
}

/// A kernel, or the package of filesystem programs.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AppliancePart {
    /// The path of the file; null if none was found.
    path: Option<String>,
    /// The size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// The reason why none was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The results of testing the backends.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceTested {
    /// The header with the version and the command.
    diskfs: Header,
    /// The backends, by name.
    backends: BTreeMap<String, Backend>,
}

/// The result of testing a backend.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Backend {
    /// True if the backend works.
    works: bool,
    /// The release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// The time until the machine answered, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_ms: Option<u64>,
    /// The time until the machine had ended, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// The reason why the backend does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The directory in which an appliance is built.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct AppliancePath {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the directory.
    path: String,
}

/// The document of `diskfs man --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Man {
    /// The header with the version and the command.
    diskfs: Header,
    /// The directory that the pages were written to.
    directory: String,
    /// The directory's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_base64: Option<String>,
}

/// The document of `diskfs schema --json` without a command.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Schemas {
    /// The header with the version and the command.
    diskfs: Header,
    /// The names that have a schema.
    schemas: Vec<String>,
}
