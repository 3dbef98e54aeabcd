//! The JSON output of commands that change the size of an image, and the layout of its disk.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::Header;

/// The document of `diskfs resize --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Resize {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the volume.
    volume: String,
    /// The type of its content, such as ext4 or `LVM2_member`.
    #[serde(rename = "type")]
    kind: String,
    /// The size of the volume before.
    old_size_bytes: u64,
    /// The size of the volume.
    size_bytes: u64,
    /// True if the size of anything was changed, or would be with `--dry-run`.
    changed: bool,
    /// True if nothing was written.
    dry_run: bool,
    /// The steps, in the order in which they were carried out.
    steps: Vec<ResizeStep>,
    /// The number of bytes of the disk that would change, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// A step of a resize.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ResizeStep {
    /// The layer: image, partition, array, luks, physical-volume, logical-volume or filesystem.
    step: String,
    /// The name of the volume, or `disk` for the image.
    name: String,
    /// The format of the image, the type of the filesystem, or the kind of volume in words.
    #[serde(rename = "type")]
    kind: String,
    /// The size before in bytes.
    from_bytes: u64,
    /// The size in bytes.
    to_bytes: u64,
    /// A remark, for example the reason why the size stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The document of `diskfs sparsify --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Sparsify {
    /// The header with the version and the command.
    diskfs: Header,
    /// The names of the volumes that were trimmed.
    volumes: Vec<String>,
    /// True if nothing was changed.
    dry_run: bool,
    /// The free space of the volumes that diskfs itself has trimmed, in bytes.
    free_bytes: u64,
    /// The part of it that the image stored and that was discarded, or would be, in bytes.
    discarded_bytes: u64,
    /// The space that was allocated for the image file before.
    before_bytes: u64,
    /// The space that is allocated for the image file now.
    after_bytes: u64,
}

/// The document of `diskfs partition --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum PartitionDocument {
    /// The output of `list`.
    List(PartitionList),
    /// The output of all commands that change the table.
    Edited(PartitionsEdited),
}

/// The partitions of a disk.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PartitionList {
    /// The header with the version and the command.
    diskfs: Header,
    /// The partition table; null if the disk has none.
    partition_table: Option<EditableTable>,
    /// The free space of the disk, with `--free`.
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<Vec<FreePlace>>,
}

/// The result of a change of the partition table.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PartitionsEdited {
    /// The header with the version and the command.
    diskfs: Header,
    /// The partition table after the change.
    partition_table: Option<EditableTable>,
    /// The free space of the disk after the change.
    free: Vec<FreePlace>,
    /// The number of the partition that was added or changed.
    partition: Option<u32>,
    /// True if the table was written; false if it was as requested already.
    changed: bool,
    /// True for a dry run, which changes nothing.
    dry_run: bool,
    /// The number of bytes of the disk that a dry run would have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// A partition table with the flags of its partitions.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EditableTable {
    /// The type of the table, such as `gpt`.
    #[serde(rename = "type")]
    kind: String,
    /// The ID of the disk in the table.
    disk_id: String,
    /// The size of a sector.
    sector_size_bytes: u64,
    /// The partitions in the table.
    partitions: Vec<EditablePartition>,
    /// Problems of the table that do not prevent reading it.
    warnings: Vec<String>,
}

/// A partition with its flags.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EditablePartition {
    /// The name, as it is given to `--volume`.
    volume: String,
    /// The number of the partition.
    number: u64,
    /// The offset of the partition on the disk.
    start_bytes: u64,
    /// The size of the partition.
    size_bytes: u64,
    /// The name of the partition's type.
    #[serde(rename = "type")]
    kind: String,
    /// The type as a number or UUID, as it is stored in the table.
    type_id: String,
    /// The name of the partition in the table.
    name: Option<String>,
    /// The partition's UUID.
    uuid: Option<String>,
    /// The flags that are set, as `set-flags` names them.
    flags: Vec<String>,
    /// The reason why the partition cannot be used.
    problem: Option<String>,
}

/// A free part of a disk.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FreePlace {
    /// The offset on the disk.
    start_bytes: u64,
    /// The size of the free part, before alignment.
    size_bytes: u64,
    /// True if it is in the extended partition, for logical partitions.
    logical: bool,
}
