//! The JSON output of commands that build disks and filesystems.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::Header;

/// The document of `diskfs build --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Build {
    /// The layout of the image.
    Image(BuiltImage),
    /// The output of `--describe` without a key.
    Keys(PlanKeys),
    /// The output of `--describe` with a key.
    Key(PlanKey),
}

/// The keys of plans.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PlanKeys {
    /// The header with the version and the command.
    diskfs: Header,
    /// The keys that a plan can have.
    keys: Vec<DescribedKey>,
}

/// A key of plans.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DescribedKey {
    /// The name of the key.
    name: String,
    /// A description of the key.
    description: String,
}

/// The description of a key of plans, with everything in it.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PlanKey {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the key.
    key: String,
    /// The key, and the keys and values in it.
    items: Vec<PlanItem>,
}

/// A key or a value of plans.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PlanItem {
    /// The number of items that this one is nested in.
    depth: usize,
    /// The name, and the form of the value.
    term: String,
    /// A description of the item.
    description: String,
}

/// The layout of an image, and what was written to it.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BuiltImage {
    /// The header with the version and the command.
    diskfs: Header,
    /// The size of the disk.
    size_bytes: u64,
    /// The partitions and volumes, each before those in it.
    volumes: Vec<BuiltVolume>,
    /// The boot loader with its architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    bootloader: Option<String>,
    /// True if nothing was written.
    dry_run: bool,
    /// The number of files that were written; missing in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// The number of bytes in these files, without holes; missing in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_bytes: Option<u64>,
    /// The reports of the deploy plan's steps, as of `diskfs deploy`; missing in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<serde_json::Value>>,
}

/// A partition or a volume of a new image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct BuiltVolume {
    /// The name of the volume: `p1`, `vg0/root`, `p2/luks`.
    volume: String,
    /// The number of volumes that contain this one.
    depth: usize,
    /// The offset on the disk, for a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_bytes: Option<u64>,
    /// The size in bytes.
    size_bytes: u64,
    /// The type of the contents; empty for none.
    #[serde(rename = "type")]
    kind: String,
    /// The label of the contents, or the name of the volume group.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// The UUID of the contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// The mount point.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<String>,
    /// The size of the contents of all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_bytes: Option<u64>,
}

/// The document of `diskfs mkfs --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Mkfs {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the volume.
    volume: String,
    /// The volume's size.
    size_bytes: u64,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    /// The label of the filesystem.
    label: Option<String>,
    /// The UUID of the filesystem.
    uuid: Option<String>,
    /// The number of files that the filesystem was filled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// The number of bytes in these files, without holes.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_bytes: Option<u64>,
    /// True if nothing was written.
    dry_run: bool,
    /// The number of bytes of the disk that would change, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}
