//! What commands print with `--json` that have to do with images as a whole, and with the program itself.

#![expect(dead_code, reason = "the schemas are what is used of the types")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;

/// The document of `diskfs umount --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Umount {
    /// What made the document.
    diskfs: Header,
    /// What was unmounted.
    unmounted: Vec<Unmounted>,
}

/// A mount that is gone.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Unmounted {
    /// The directory that it was at.
    mountpoint: String,
    /// The directory's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    mountpoint_base64: Option<String>,
    /// True if the server has ended, and the image is free.
    free: bool,
}

/// The document of `diskfs wait --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Wait {
    /// What made the document.
    diskfs: Header,
    /// The images that are free.
    free: Vec<FreeImage>,
}

/// An image that is free.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FreeImage {
    /// The image.
    image: String,
    /// The image's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
}

/// The document of `diskfs tar --json`: on standard error, as one line, where the archive goes to standard output.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Tar {
    /// What made the document.
    diskfs: Header,
    /// How many files are in the archive.
    files: u64,
    /// The file that the archive is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
    /// The file's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_base64: Option<String>,
}

/// The document of `diskfs export --json`, which is printed when clients can connect.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Export {
    /// What made the document.
    diskfs: Header,
    /// The socket's path.
    socket: String,
    /// The volume, or `disk`.
    volume: String,
    /// The size.
    size_bytes: u64,
    /// True if clients can't write.
    read_only: bool,
    /// The options for QEMU.
    qemu_options: String,
}

/// The document of `diskfs create --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Create {
    /// What made the document.
    diskfs: Header,
    /// The new image.
    path: String,
    /// The image's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format.
    format: String,
    /// The size of the disk.
    virtual_size_bytes: u64,
    /// The size of the file.
    file_size_bytes: u64,
}

/// The document of `diskfs mkfs --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Mkfs {
    /// What made the document.
    diskfs: Header,
    /// The volume.
    volume: String,
    /// The volume's size.
    size_bytes: u64,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    /// The label.
    label: Option<String>,
    /// The UUID.
    uuid: Option<String>,
    /// True if nothing was written.
    dry_run: bool,
    /// How many bytes of the disk would change, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// The document of `diskfs check --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Check {
    /// What made the document.
    diskfs: Header,
    /// The filesystems.
    volumes: Vec<Checked>,
}

/// A filesystem that was checked.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Checked {
    /// The volume.
    volume: String,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    /// True if nothing is wrong with it.
    clean: bool,
    /// What the program said.
    said: String,
}

/// The document of `diskfs resize --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Resize {
    /// What made the document.
    diskfs: Header,
    /// The volume.
    volume: String,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    /// The size.
    size_bytes: u64,
    /// True if nothing was written.
    dry_run: bool,
}

/// The document of `diskfs sparsify --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Sparsify {
    /// What made the document.
    diskfs: Header,
    /// The volumes that were trimmed.
    volumes: Vec<String>,
    /// What was allocated for the file before.
    before_bytes: u64,
    /// What is allocated for it now.
    after_bytes: u64,
}

/// The document of `diskfs rebase --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Rebase {
    /// What made the document.
    diskfs: Header,
    /// How many bytes were written into the overlay.
    written_bytes: u64,
}

/// The document of `diskfs commit --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Commit {
    /// What made the document.
    diskfs: Header,
    /// How many bytes were written into the image behind the overlay.
    written_bytes: u64,
    /// True if the overlay is empty now.
    emptied: bool,
}

/// The document of `diskfs snapshot --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum SnapshotDocument {
    /// Of `list`.
    List(SnapshotList),
    /// Of `create`, `apply` and `delete`.
    Done(SnapshotDone),
}

/// The snapshots of an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SnapshotList {
    /// What made the document.
    diskfs: Header,
    /// The snapshots.
    snapshots: Vec<Snapshot>,
}

/// A snapshot that was made, applied or deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SnapshotDone {
    /// What made the document.
    diskfs: Header,
    /// The snapshot's name or ID.
    snapshot: String,
}

/// A snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Snapshot {
    /// The ID.
    id: String,
    /// The name.
    name: String,
    /// When it was taken (RFC 3339).
    taken_at: String,
    /// The size of the disk.
    virtual_size_bytes: Option<u64>,
    /// The size of the machine's saved state.
    vm_state_bytes: u64,
}

/// The document of `diskfs uefi --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Uefi {
    /// What made the document.
    diskfs: Header,
    /// The boot entries.
    entries: Vec<BootEntry>,
    /// The numbers of the entries in their order.
    boot_order: Vec<String>,
    /// The entry that is booted at the next start only.
    boot_next: Option<String>,
    /// All variables.
    variables: Vec<Variable>,
}

/// A boot entry of UEFI.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct BootEntry {
    /// The number.
    number: String,
    /// The description.
    description: String,
    /// The device path.
    path: String,
    /// True if it can be booted.
    active: bool,
}

/// A variable of UEFI.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Variable {
    /// The name.
    name: String,
    /// The vendor's GUID.
    vendor: String,
    /// The size of the value.
    size_bytes: u64,
}

/// The document of `diskfs appliance --json`, with one member by what was asked.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Appliance {
    /// Of `build`.
    Built(ApplianceBuilt),
    /// Of `show`.
    Shown(ApplianceShown),
    /// Of `test`.
    Tested(ApplianceTested),
    /// Of `path`.
    Path(AppliancePath),
}

/// What was built.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceBuilt {
    /// What made the document.
    diskfs: Header,
    /// What was built: its path, sizes and contents.
    built: BTreeMap<String, Value>,
}

/// What there is of an appliance.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceShown {
    /// What made the document.
    diskfs: Header,
    /// What there is.
    appliance: ApplianceParts,
}

/// What there is of an appliance.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ApplianceParts {
    /// The kernels and programs by what runs them.
    kernels: BTreeMap<String, AppliancePart>,
    /// The directories that were searched.
    places: Vec<String>,
}

/// A kernel, or programs.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AppliancePart {
    /// The file; null if there is none.
    path: Option<String>,
    /// The file's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Which backends work.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ApplianceTested {
    /// What made the document.
    diskfs: Header,
    /// The backends by name.
    backends: BTreeMap<String, Backend>,
}

/// Whether a backend works.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Backend {
    /// True if it works.
    works: bool,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// After how many milliseconds it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_ms: Option<u64>,
    /// After how many milliseconds it had ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// Why it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Where an appliance is built.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct AppliancePath {
    /// What made the document.
    diskfs: Header,
    /// The directory.
    path: String,
}

/// The document of `diskfs man --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Man {
    /// What made the document.
    diskfs: Header,
    /// The directory that the pages were written to.
    directory: String,
    /// The directory's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_base64: Option<String>,
}

/// The document of `diskfs schema --json` without a command.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Schemas {
    /// What made the document.
    diskfs: Header,
    /// The names that have a schema.
    schemas: Vec<String>,
}
