//! The JSON output of commands that work on guests, and the errors of all commands.

#![expect(dead_code, reason = "the types are only used for their schemas")]
#![expect(
    clippy::struct_field_names,
    reason = "the names of fields are those of the documents"
)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;

/// A line of `diskfs log --json`: a record of the journal as journalctl(1) prints it, a line of a
/// text log, or a boot.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs log")]
#[serde(untagged)]
pub(super) enum Log {
    /// A boot, with `--list-boots`.
    Boot(Boot),
    /// A record of the journal, or a line of a text log.
    Record(Record),
}

/// A boot in the journal.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Boot {
    /// The number of the boot: 0 for the last one, -1 for the one before it.
    index: i64,
    /// The boot's ID.
    boot_id: String,
    /// The time of the boot's first record, in microseconds since 1970.
    first_entry: u64,
    /// The time of the boot's last record, in microseconds since 1970.
    last_entry: u64,
}

/// A record with the fields of systemd.journal-fields(7). A value is a string, an array of bytes if
/// it is binary, or an array of values if there are several.
#[derive(Serialize, JsonSchema)]
pub(super) struct Record {
    /// The time of the record, in microseconds since 1970.
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    realtime: String,
    /// The file of the guest that a line of a text log was read from.
    #[serde(rename = "LOG_FILE", skip_serializing_if = "Option::is_none")]
    log_file: Option<String>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

/// The document of `diskfs deploy --json`. With `--fleet`, each line is the result of one guest.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Deploy {
    /// The results of all guests.
    Done(Deployed),
    /// A line of a fleet: the result of a guest.
    Line(DeployedGuest),
    /// A line of a fleet: the error of a guest that was not changed.
    Failed(FailedGuest),
    /// The output of `--list-steps`.
    Steps(Steps),
    /// The output of `--list-operations`.
    Operations(Operations),
    /// The output of `--describe`.
    Step(StepDescription),
}

/// The results of deploying guests, or of a dry run.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Deployed {
    /// The header with the version and the command.
    diskfs: Header,
    /// True if nothing was written.
    dry_run: bool,
    /// The results of the guests.
    guests: Vec<DeployedGuest>,
}

/// The result of deploying a guest, or of a dry run.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeployedGuest {
    /// The image's path.
    image: String,
    /// The results of the steps.
    steps: Vec<StepReport>,
    /// The changes as a unified diff, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// True if the changes were not one transaction, so a crash could have left a part of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_parts: Option<bool>,
}

/// The result of a step.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepReport {
    /// The step's name.
    step: String,
    /// The paths that the step changed; empty if nothing had to be changed.
    changed: Vec<String>,
    /// Notes about what was skipped, and why.
    notes: Vec<String>,
    /// Secrets that were generated, and are not stored anywhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<Secret>>,
    /// The UUIDs of volumes that the step replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    uuids: Option<Vec<NewUuid>>,
}

/// A UUID that was replaced.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NewUuid {
    /// The owner of the UUID, such as `volume group vg0`.
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
    /// The name of the user whose secret it is.
    of: String,
    /// The generated secret, such as a password.
    secret: String,
}

/// A guest of a fleet that was not changed because of an error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct FailedGuest {
    /// The image's path.
    image: String,
    /// The error that occurred.
    error: ErrorReport,
}

/// An error, as it is printed on standard error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorReport {
    /// The kind of the error, such as `not_found`.
    kind: String,
    /// The message: what failed, and why.
    message: String,
    /// The exit code of the error.
    exit_code: u8,
    /// The file on the host that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The file's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_base64: Option<String>,
    /// The path in the image that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The inode number in the image that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    /// The byte offset of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    /// A hint at the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// An error of any command, which is printed as a line on standard error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorDocument {
    /// The header with the version and the command.
    diskfs: Header,
    /// The error that occurred.
    error: ErrorReport,
}

/// The steps of plans.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Steps {
    /// The header with the version and the command.
    diskfs: Header,
    /// The steps that a plan can have.
    steps: Vec<Described>,
}

/// A name with its description.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Described {
    /// The name of the step.
    name: String,
    /// A description of the step.
    description: String,
}

/// The operations of `sysprep`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Operations {
    /// The header with the version and the command.
    diskfs: Header,
    /// The operations of `sysprep`.
    operations: Vec<Operation>,
}

/// An operation of `sysprep`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Operation {
    /// The name of the operation.
    name: String,
    /// The data that the operation removes.
    description: String,
    /// True if the operation is one of `defaults`.
    default: bool,
}

/// The description of a step, with its keys and values.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StepDescription {
    /// The header with the version and the command.
    diskfs: Header,
    /// The step's name.
    step: String,
    /// The step itself, followed by its keys and values.
    items: Vec<StepItem>,
}

/// A step, a key, or one of several values.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepItem {
    /// The number of items that this one is nested in.
    depth: u64,
    /// The name, and the form of the value.
    term: String,
    /// A description of the item.
    description: String,
}

/// The document of `diskfs mount --json`, and of `mount --explain --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Mount {
    /// A mount that is ready.
    Mounted(Mounted),
    /// The report of `--explain`.
    Explained(Explained),
}

/// A mount that is ready.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Mounted {
    /// The header with the version and the command.
    diskfs: Header,
    /// The directory where the image is mounted.
    mountpoint: String,
    /// The directory's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    mountpoint_base64: Option<String>,
    /// The image that is mounted.
    image: String,
    /// The image's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
    /// True if the mount is read-only.
    read_only: bool,
    /// The process ID of the server.
    pid: u32,
}

/// The report of `mount --explain`: the filesystems that each system mounts.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Explained {
    /// The header with the version and the command.
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
    /// The name of the system.
    name: String,
    /// The volume with the system's root filesystem.
    root: String,
    /// The driver that opens the root filesystem: `native` (of diskfs) or `vm` (the kernel of a
    /// microVM); null if there is none.
    driver: Option<String>,
    /// The filesystems that the system mounts.
    mounts: Vec<ExplainedMount>,
}

/// A filesystem that a system mounts.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ExplainedMount {
    /// The mount point in the guest.
    path: String,
    /// The directory's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The device, as the guest names it.
    what: String,
    /// The volume that the device stands for; null if it is not in the images.
    volume: Option<String>,
    /// The driver that opens the filesystem: `native` (of diskfs) or `vm` (the kernel of a microVM);
    /// null if there is none.
    driver: Option<String>,
    /// The place in the guest that specifies the mount, such as a line of fstab.
    from: String,
    /// True if the filesystem would be mounted.
    mounted: bool,
    /// The reason why the filesystem would not be mounted.
    problem: Option<String>,
}

/// A volume that no system mounts.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NotMounted {
    /// The name of the volume.
    volume: String,
    /// The type of the volume's contents.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The reason why no system mounts the volume.
    reason: String,
}
