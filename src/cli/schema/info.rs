//! What `diskfs info --json` prints.

#![expect(
    clippy::struct_field_names,
    clippy::struct_excessive_bools,
    reason = "fields are called as the documents have them"
)]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{Header, Statistics};

/// The document of `diskfs info --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs info", deny_unknown_fields)]
pub(super) struct Info {
    /// What made the document.
    diskfs: Header,
    /// The image.
    image: ImageInfo,
    /// The partition table.
    partition_table: Option<PartitionTable>,
    /// The volume groups of LVM.
    volume_groups: Vec<VolumeGroup>,
    /// The arrays of md.
    arrays: Vec<Array>,
    /// The volumes.
    volumes: Vec<Volume>,
    /// What the volumes hold.
    filesystems: Vec<Filesystem>,
    /// What is wrong with the image without keeping it from being read.
    warnings: Vec<String>,
}

/// An image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ImageInfo {
    /// The image's path on the host.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format; null for an image that was not opened.
    format: Option<String>,
    /// True if the format was found by probing.
    probed: bool,
    /// The size of the disk that it shows.
    virtual_size_bytes: Option<u64>,
    /// The size of the file.
    file_size_bytes: Option<u64>,
    /// What is allocated for the file on the host.
    allocated_bytes: Option<u64>,
    /// What only qcow2 has.
    qcow2: Option<Qcow2>,
    /// The image behind it.
    backing: Option<Box<ImageInfo>>,
    /// What is wrong with it without keeping it from being read.
    warnings: Vec<String>,
    /// The LUKS header of an image whose own data is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    luks: Option<Luks>,
}

/// What only qcow2 has.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Qcow2 {
    /// The version: 0.10 or 1.1.
    compat: String,
    /// The size of a cluster.
    cluster_size_bytes: u64,
    /// How clusters are compressed.
    compression: String,
    /// The bits of a reference count.
    refcount_bits: u64,
    /// True with subclusters.
    extended_l2: bool,
    /// True if reference counts may be stale after a crash.
    lazy_refcounts: bool,
    /// True if the image was not closed.
    dirty: bool,
    /// True if the image is marked as corrupt.
    corrupt: bool,
    /// The names of its features.
    features: Vec<String>,
    /// The backing file, as the image names it.
    backing_name: Option<String>,
    /// The format of the backing file.
    backing_format: Option<String>,
    /// The external data file.
    data_file: Option<String>,
    /// True if the external data file is a raw image.
    data_file_raw: bool,
    /// The internal snapshots.
    snapshots: Vec<ImageSnapshot>,
    /// The ID of the snapshot that is shown instead of the current state.
    opened_snapshot: Option<String>,
    /// The dirty bitmaps.
    bitmaps: Vec<Bitmap>,
    /// How its data is encrypted.
    encryption: Option<Encryption>,
}

/// An internal snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ImageSnapshot {
    /// The ID.
    id: String,
    /// The name.
    name: String,
    /// The size of the disk.
    virtual_size_bytes: Option<u64>,
    /// The size of the machine's saved state.
    vm_state_bytes: u64,
    /// When it was taken (RFC 3339).
    taken_at: String,
    /// How long the machine had run.
    vm_clock_seconds: f64,
    /// The number of instructions that the machine had run.
    icount: Option<u64>,
}

/// A dirty bitmap.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Bitmap {
    /// The name.
    name: String,
    /// How much of the disk a bit stands for.
    granularity_bytes: u64,
    /// True if it can be used.
    consistent: bool,
    /// True if writes are recorded.
    recording: bool,
}

/// How an image's data is encrypted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Encryption {
    /// The format.
    format: String,
    /// True if it was opened with a key.
    unlocked: bool,
}

/// A partition table.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PartitionTable {
    /// The type.
    #[serde(rename = "type")]
    kind: String,
    /// The disk's ID.
    disk_id: Option<String>,
    /// The size of a sector.
    sector_size_bytes: u64,
    /// The partitions.
    partitions: Vec<Partition>,
    /// What is wrong with the table without keeping it from being read.
    warnings: Vec<String>,
}

/// A partition.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Partition {
    /// The name, as `--volume` takes it.
    volume: String,
    /// The number.
    number: u64,
    /// Where it begins on the disk.
    start_bytes: u64,
    /// The size.
    size_bytes: u64,
    /// The type's name.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The type, as the table has it.
    type_id: String,
    /// The partition's own name.
    name: Option<String>,
    /// The partition's UUID.
    uuid: Option<String>,
    /// Why it can't be used.
    problem: Option<String>,
}

/// A volume group of LVM.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct VolumeGroup {
    /// The name.
    name: String,
    /// The UUID.
    uuid: String,
    /// How often its metadata was changed.
    seqno: u64,
    /// The size of an extent.
    extent_size_bytes: u64,
    /// The size.
    size_bytes: u64,
    /// What no logical volume has.
    free_bytes: u64,
    /// True if it is exported.
    exported: bool,
    /// The physical volumes.
    physical_volumes: Vec<PhysicalVolume>,
}

/// A physical volume of LVM.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PhysicalVolume {
    /// The UUID.
    uuid: String,
    /// The volume that it is; null for one that is not on what is given.
    volume: Option<String>,
    /// The device that it was last on.
    device: Option<String>,
    /// True if it was missing when the group was last changed.
    was_missing: bool,
}

/// An array of md.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Array {
    /// The name, as `--volume` takes it.
    volume: String,
    /// The array's own name.
    name: Option<String>,
    /// The UUID.
    uuid: String,
    /// The level.
    level: String,
    /// The volumes that it is made of; null for one that is missing.
    members: Vec<Option<String>>,
}

/// A volume.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Volume {
    /// The name, as `--volume` takes it.
    volume: String,
    /// Where it begins on the disk; null where it is in pieces.
    start_bytes: Option<u64>,
    /// The size.
    size_bytes: u64,
    /// What LVM says of it.
    logical: Option<Logical>,
    /// What its LUKS header says.
    luks: Option<Luks>,
    /// Why it can't be used.
    problem: Option<String>,
    /// What it holds.
    content: Option<String>,
    /// What kind of thing that is.
    class: Option<String>,
}

/// A logical volume of LVM.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Logical {
    /// The group.
    group: String,
    /// The name.
    name: String,
    /// The UUID.
    uuid: Option<String>,
    /// How it lies on the physical volumes.
    layout: String,
    /// True if it can be written.
    writable: bool,
}

/// What a LUKS header says.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Luks {
    /// The version.
    version: u64,
    /// The UUID.
    uuid: String,
    /// The label.
    label: Option<String>,
    /// The cipher.
    cipher: String,
    /// The size of a sector.
    sector_size_bytes: u64,
    /// The key slots in use.
    keyslots: Vec<Keyslot>,
    /// True if it was opened with a key.
    unlocked: bool,
    /// Why it can't be opened.
    problem: Option<String>,
    /// What is wrong with it without keeping it from being read.
    warnings: Vec<String>,
}

/// A key slot of LUKS.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Keyslot {
    /// The number.
    slot: u64,
    /// How keys are derived.
    kdf: String,
    /// Why it can't be used.
    problem: Option<String>,
}

/// What a volume holds.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Filesystem {
    /// The volume's name.
    volume: String,
    /// The type.
    #[serde(rename = "type")]
    kind: String,
    /// True if diskfs reads it.
    readable: bool,
    /// The label.
    label: String,
    /// The label's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    label_base64: Option<String>,
    /// The UUID.
    uuid: Option<String>,
    /// The names of its features.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<String>>,
    /// What should be known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
    /// How full it is, where it is readable.
    #[serde(flatten)]
    statistics: Option<Statistics>,
}
