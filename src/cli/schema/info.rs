//! The JSON output of `diskfs info`.

#![expect(
    clippy::struct_field_names,
    clippy::struct_excessive_bools,
    reason = "the names of fields are those of the documents"
)]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{Header, Statistics};

/// The document of `diskfs info --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs info", deny_unknown_fields)]
pub(super) struct Info {
    /// The header with the version and the command.
    diskfs: Header,
    /// The image with its backing files.
    image: ImageInfo,
    /// The partition table.
    partition_table: Option<PartitionTable>,
    /// The LVM volume groups.
    volume_groups: Vec<VolumeGroup>,
    /// The md arrays.
    arrays: Vec<Array>,
    /// The volumes of the disk.
    volumes: Vec<Volume>,
    /// The contents of the volumes.
    filesystems: Vec<Filesystem>,
    /// Problems of the image that do not prevent reading it.
    warnings: Vec<String>,
}

/// An image, or a backing file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ImageInfo {
    /// The image's path on the host.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format; null for a backing file that was not opened.
    format: Option<String>,
    /// True if the format was detected from the contents.
    probed: bool,
    /// The size of the guest's disk.
    virtual_size_bytes: Option<u64>,
    /// The size of the image file.
    file_size_bytes: Option<u64>,
    /// The space that is allocated for the file on the host.
    allocated_bytes: Option<u64>,
    /// Details of a qcow2 image.
    qcow2: Option<Qcow2>,
    /// Details of an image that is neither raw nor qcow2.
    details: Option<FormatDetails>,
    /// The backing file, or the parent.
    backing: Option<Box<ImageInfo>>,
    /// Problems of the image that do not prevent reading it.
    warnings: Vec<String>,
    /// The LUKS header of an image whose own data is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    luks: Option<Luks>,
}

/// Details of an image that is neither raw nor qcow2.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FormatDetails {
    /// The variant of the format: dynamic, fixed, differencing, static.
    variant: Option<String>,
    /// The unit in which the image allocates space.
    block_size_bytes: Option<u64>,
    /// The program that created the image, as the image names it.
    creator: Option<String>,
    /// The identifier by which other images refer to this one.
    id: Option<String>,
    /// The parent or backing file, as the image names it.
    parent_name: Option<String>,
    /// The disks of a package (OVA, OVF) that have a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<PackagedDisk>>,
}

/// A disk of a package.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PackagedDisk {
    /// The name of its file.
    name: String,
    /// The identifier that the package gives it.
    id: String,
    /// The size that the package states.
    capacity_bytes: Option<u64>,
    /// True for the disk that is shown.
    is_open: bool,
}

/// Details of a qcow2 image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Qcow2 {
    /// The version of the format: 0.10 or 1.1.
    compat: String,
    /// The size of a cluster.
    cluster_size_bytes: u64,
    /// The compression type of clusters.
    compression: String,
    /// The number of bits of a reference count.
    refcount_bits: u64,
    /// True if the image has extended L2 entries (subclusters).
    extended_l2: bool,
    /// True if reference counts are updated lazily, and can be wrong after a crash.
    lazy_refcounts: bool,
    /// True if the image was not closed.
    dirty: bool,
    /// True if the image is marked as corrupt.
    corrupt: bool,
    /// The names of the image's features.
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
    /// The ID of the snapshot that was opened instead of the current state.
    opened_snapshot: Option<String>,
    /// The dirty bitmaps.
    bitmaps: Vec<Bitmap>,
    /// The encryption of the image's data.
    encryption: Option<Encryption>,
}

/// An internal snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ImageSnapshot {
    /// The ID of the snapshot.
    id: String,
    /// The name of the snapshot.
    name: String,
    /// The size of the disk in the snapshot.
    virtual_size_bytes: Option<u64>,
    /// The size of the virtual machine's saved state.
    vm_state_bytes: u64,
    /// The time when the snapshot was created (RFC 3339).
    taken_at: String,
    /// The time that the virtual machine had run.
    vm_clock_seconds: f64,
    /// The number of instructions that the virtual machine had executed.
    icount: Option<u64>,
}

/// A dirty bitmap.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Bitmap {
    /// The name of the bitmap.
    name: String,
    /// The number of bytes of the disk that one bit stands for.
    granularity_bytes: u64,
    /// True if the bitmap is consistent, so that it can be used.
    consistent: bool,
    /// True if writes are recorded in the bitmap.
    recording: bool,
}

/// The encryption of an image's data.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Encryption {
    /// The format of the encryption.
    format: String,
    /// True if the image was unlocked with a key.
    unlocked: bool,
}

/// A partition table.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PartitionTable {
    /// The type of the table, such as `gpt`.
    #[serde(rename = "type")]
    kind: String,
    /// The ID of the disk in the table.
    disk_id: Option<String>,
    /// The size of a sector.
    sector_size_bytes: u64,
    /// The partitions in the table.
    partitions: Vec<Partition>,
    /// Problems of the table that do not prevent reading it.
    warnings: Vec<String>,
}

/// A partition of the disk.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Partition {
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
    kind: Option<String>,
    /// The type as a number or UUID, as it is stored in the table.
    type_id: String,
    /// The name of the partition in the table.
    name: Option<String>,
    /// The partition's UUID.
    uuid: Option<String>,
    /// The reason why the partition cannot be used.
    problem: Option<String>,
}

/// An LVM volume group.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct VolumeGroup {
    /// The name of the group.
    name: String,
    /// The UUID of the group.
    uuid: String,
    /// The sequence number of the metadata, which counts its changes.
    seqno: u64,
    /// The size of an extent.
    extent_size_bytes: u64,
    /// The size of the group.
    size_bytes: u64,
    /// The space that is not allocated to logical volumes.
    free_bytes: u64,
    /// True if the group is exported.
    exported: bool,
    /// The physical volumes of the group.
    physical_volumes: Vec<PhysicalVolume>,
}

/// An LVM physical volume.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PhysicalVolume {
    /// The UUID of the physical volume.
    uuid: String,
    /// The name of the volume; null if it is on none of the given disks.
    volume: Option<String>,
    /// The device on which the physical volume was last seen.
    device: Option<String>,
    /// True if the physical volume was missing when the group was last changed.
    was_missing: bool,
}

/// An md array.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Array {
    /// The name, as it is given to `--volume`.
    volume: String,
    /// The name in the array's metadata.
    name: Option<String>,
    /// The UUID of the array.
    uuid: String,
    /// The RAID level of the array.
    level: String,
    /// The names of the member volumes; null for a missing member.
    members: Vec<Option<String>>,
}

/// A volume of the disk.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Volume {
    /// The name, as it is given to `--volume`.
    volume: String,
    /// The offset of the volume on the disk; null if it is not contiguous.
    start_bytes: Option<u64>,
    /// The size of the volume.
    size_bytes: u64,
    /// The LVM metadata of a logical volume.
    logical: Option<Logical>,
    /// The LUKS header of an encrypted volume.
    luks: Option<Luks>,
    /// The reason why the volume cannot be used.
    problem: Option<String>,
    /// The type of the volume's contents.
    content: Option<String>,
    /// The class of the contents, such as `filesystem`.
    class: Option<String>,
}

/// An LVM logical volume.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Logical {
    /// The name of the volume group.
    group: String,
    /// The name of the logical volume.
    name: String,
    /// The UUID of the logical volume.
    uuid: Option<String>,
    /// The layout of the logical volume on the physical volumes.
    layout: String,
    /// True if the logical volume can be written to.
    writable: bool,
}

/// A LUKS header.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Luks {
    /// The version of the LUKS format.
    version: u64,
    /// The UUID in the header.
    uuid: String,
    /// The label in the header.
    label: Option<String>,
    /// The cipher of the data.
    cipher: String,
    /// The size of an encryption sector.
    sector_size_bytes: u64,
    /// The key slots in use.
    keyslots: Vec<Keyslot>,
    /// True if the volume was unlocked with a key.
    unlocked: bool,
    /// The reason why the volume cannot be opened.
    problem: Option<String>,
    /// Problems of the header that do not prevent using it.
    warnings: Vec<String>,
}

/// A LUKS key slot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Keyslot {
    /// The number of the key slot.
    slot: u64,
    /// The key derivation function of the slot.
    kdf: String,
    /// The reason why the slot cannot be used.
    problem: Option<String>,
}

/// The contents of a volume.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Filesystem {
    /// The volume's name.
    volume: String,
    /// The type of the contents, such as `ext4`.
    #[serde(rename = "type")]
    kind: String,
    /// True if diskfs can read the contents.
    readable: bool,
    /// The driver that opens the filesystem: `native` (of diskfs) or `vm` (the kernel of a
    /// microVM); null if there is none.
    driver: Option<String>,
    /// The reason why the driver is not a native one.
    driver_reason: Option<String>,
    /// The label of the contents.
    label: String,
    /// The label's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    label_base64: Option<String>,
    /// The UUID of the contents.
    uuid: Option<String>,
    /// The names of the filesystem's features.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<String>>,
    /// Notes about the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
    /// The usage of the filesystem, if it is readable.
    #[serde(flatten)]
    statistics: Option<Statistics>,
}
