//! What commands print with `--json` that have to do with guests, and the errors of all.

#![expect(dead_code, reason = "the schemas are what is used of the types")]
#![expect(
    clippy::struct_field_names,
    reason = "fields are called as the documents have them"
)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;

/// A line of `diskfs log --json`: a record of the journal as journalctl(1) prints it, a line of a text log, or a boot.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs log")]
#[serde(untagged)]
pub(super) enum Log {
    /// A boot, with `--list-boots`.
    Boot(Boot),
    /// A record.
    Record(Record),
}

/// A boot that the journal tells of.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Boot {
    /// 0 for the last one, -1 for the one before it.
    index: i64,
    /// The boot's ID.
    boot_id: String,
    /// When its first record was logged, in microseconds since 1970.
    first_entry: u64,
    /// When its last record was logged, in microseconds since 1970.
    last_entry: u64,
}

/// A record, with the fields of systemd.journal-fields(7): text, or a list of bytes where a value is none, or a list of
/// values where there are several.
#[derive(Serialize, JsonSchema)]
pub(super) struct Record {
    /// When it was logged, in microseconds since 1970.
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    realtime: String,
    /// The file that a line of a text log is from.
    #[serde(rename = "LOG_FILE", skip_serializing_if = "Option::is_none")]
    log_file: Option<String>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

/// The document of `diskfs deploy --json`; with `--fleet` each line is a guest of its own.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Deploy {
    /// What was done.
    Done(Deployed),
    /// A line of a fleet: what was done.
    Line(DeployedGuest),
    /// A line of a fleet: why nothing was done.
    Failed(FailedGuest),
    /// Of `--list-steps`.
    Steps(Steps),
    /// Of `--list-operations`.
    Operations(Operations),
    /// Of `--describe`.
    Step(StepDescription),
}

/// What was done to guests, or would be.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Deployed {
    /// What made the document.
    diskfs: Header,
    /// True if nothing was written.
    dry_run: bool,
    /// The guests.
    guests: Vec<DeployedGuest>,
}

/// What was done to a guest, or would be.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeployedGuest {
    /// The image's path.
    image: String,
    /// The steps.
    steps: Vec<StepReport>,
    /// The changes as a unified diff, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// True if a crash meanwhile would have left a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_parts: Option<bool>,
}

/// What a step did.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepReport {
    /// The step's name.
    step: String,
    /// The paths that it changed; empty if all was so already.
    changed: Vec<String>,
    /// What was left out, and why.
    notes: Vec<String>,
    /// Secrets that were generated, and are nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<Secret>>,
    /// UUIDs of volumes that it replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    uuids: Option<Vec<NewUuid>>,
}

/// A UUID that was replaced.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NewUuid {
    /// What has it: `volume group vg0`.
    of: String,
    /// The old UUID.
    old: String,
    /// The new UUID.
    new: String,
}

/// A secret that was generated.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Secret {
    /// The user's name.
    of: String,
    /// The secret.
    secret: String,
}

/// Why a guest of a fleet was left as it is.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct FailedGuest {
    /// The image's path.
    image: String,
    /// The error.
    error: ErrorReport,
}

/// An error, as on standard error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorReport {
    /// The kind of error.
    kind: String,
    /// What failed, and why.
    message: String,
    /// The exit code.
    exit_code: u8,
    /// The file on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The file's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_base64: Option<String>,
    /// The path in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The inode's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    /// The place in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// An error of any command, which is a line on standard error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorDocument {
    /// What made the document.
    diskfs: Header,
    /// The error.
    error: ErrorReport,
}

/// The steps of plans.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Steps {
    /// What made the document.
    diskfs: Header,
    /// The steps.
    steps: Vec<Described>,
}

/// Something with a name, and what it does.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Described {
    /// The name.
    name: String,
    /// What it does.
    description: String,
}

/// The operations of `sysprep`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Operations {
    /// What made the document.
    diskfs: Header,
    /// The operations.
    operations: Vec<Operation>,
}

/// An operation of `sysprep`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Operation {
    /// The name.
    name: String,
    /// What it takes away.
    description: String,
    /// True if it is one of `defaults`.
    default: bool,
}

/// What a step of plans can have.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StepDescription {
    /// What made the document.
    diskfs: Header,
    /// The step's name.
    step: String,
    /// The step, and the keys and values below it.
    items: Vec<StepItem>,
}

/// A step, a key, or one of several values.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepItem {
    /// How many others it stands below.
    depth: u64,
    /// How it is written.
    term: String,
    /// What it means.
    description: String,
}

/// The document of `diskfs mount --json`, and of `mount --explain --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Mount {
    /// A mount that works.
    Mounted(Mounted),
    /// What would be seen where.
    Explained(Explained),
}

/// A mount that works.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Mounted {
    /// What made the document.
    diskfs: Header,
    /// The directory that it is mounted at.
    mountpoint: String,
    /// The directory's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    mountpoint_base64: Option<String>,
    /// The image.
    image: String,
    /// The image's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
    /// True if files can't be written.
    read_only: bool,
    /// The process that serves it.
    pid: u32,
}

/// What would be seen where.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Explained {
    /// What made the document.
    diskfs: Header,
    /// The operating systems.
    systems: Vec<ExplainedSystem>,
    /// The volumes that no system mounts.
    not_mounted: Vec<NotMounted>,
}

/// An operating system.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ExplainedSystem {
    /// The name.
    name: String,
    /// The volume with its root.
    root: String,
    /// What it mounts.
    mounts: Vec<ExplainedMount>,
}

/// What a system mounts.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ExplainedMount {
    /// The directory.
    path: String,
    /// The directory's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The device, as the guest names it.
    what: String,
    /// The volume.
    volume: Option<String>,
    /// Where the guest says so.
    from: String,
    /// True if it would be seen.
    mounted: bool,
    /// Why it would not be seen.
    problem: Option<String>,
}

/// A volume that no system mounts.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NotMounted {
    /// The volume.
    volume: String,
    /// What it holds.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Why nothing mounts it.
    reason: String,
}
