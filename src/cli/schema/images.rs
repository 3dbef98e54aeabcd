//! The JSON output of commands that work on images as a whole, and on the program itself.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;
use super::info::Bitmap;

/// The document of `diskfs umount --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Umount {
    /// The header with the version and the command.
    diskfs: Header,
    /// The mounts that were unmounted.
    unmounted: Vec<Unmounted>,
}

/// A mount that was unmounted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Unmounted {
    /// The former mount point.
    mountpoint: String,
    /// The directory's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    mountpoint_base64: Option<String>,
    /// True if the server has ended, so that the image is no longer in use.
    free: bool,
}

/// The document of `diskfs wait --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Wait {
    /// The header with the version and the command.
    diskfs: Header,
    /// The images that are no longer in use.
    free: Vec<FreeImage>,
}

/// An image that is no longer in use.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FreeImage {
    /// The path of the image.
    image: String,
    /// The image's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
}

/// The document of `diskfs tar --json`. If the archive is written to standard output, the document
/// is a line on standard error.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Tar {
    /// The header with the version and the command.
    diskfs: Header,
    /// The number of files in the archive.
    files: u64,
    /// The file to which the archive was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
    /// The file's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_base64: Option<String>,
}

/// The document of `diskfs export --json`, which is printed when clients can connect.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Export {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the socket of vhost-user-blk.
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<String>,
    /// The URIs of the NBD export.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbd: Option<Vec<String>>,
    /// The path of the FUSE file.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuse_file: Option<String>,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuse_file_base64: Option<String>,
    /// The name of the exported volume, or `disk` for the whole disk.
    volume: String,
    /// The size of the exported device.
    size_bytes: u64,
    /// True if the device is read-only.
    read_only: bool,
    /// The options with which QEMU uses the device of vhost-user-blk.
    #[serde(skip_serializing_if = "Option::is_none")]
    qemu_options: Option<String>,
}

/// The document of `diskfs create --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Create {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the new image.
    path: String,
    /// The image's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format of the new image.
    format: String,
    /// The size of the guest's disk.
    virtual_size_bytes: u64,
    /// The size of the image file.
    file_size_bytes: u64,
}

/// The document of `diskfs convert --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Convert {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the new image.
    path: String,
    /// The image's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format of the new image.
    format: String,
    /// The size of the guest's disk.
    virtual_size_bytes: u64,
    /// The size of the image file.
    file_size_bytes: u64,
    /// The space that the host has allocated for the image file.
    allocated_bytes: u64,
    /// With --salvage: the parts of the disk that could not be read, and are zeroes in the copy; at
    /// most 16384.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Vec<LostRange>>,
}

/// A part of a disk that could not be read.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LostRange {
    /// The offset in the disk.
    offset_bytes: u64,
    /// The length.
    length_bytes: u64,
}

/// The document of `diskfs backup --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Backup {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the backup.
    path: String,
    /// The backup's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format of the backup: `qcow2`.
    format: String,
    /// The size of the guest's disk.
    virtual_size_bytes: u64,
    /// The size of the backup file.
    file_size_bytes: u64,
    /// The space that the host has allocated for the backup file.
    allocated_bytes: u64,
    /// The bitmap whose marks were copied; missing for a full backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The number of bytes of the disk that the bitmap marks; missing for a full backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked_bytes: Option<u64>,
    /// The previous backup, as the new one names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    backing: Option<String>,
    /// The previous backup's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    backing_base64: Option<String>,
}

/// The document of `diskfs bench --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Bench {
    /// The header with the version and the command.
    diskfs: Header,
    /// The number of requests.
    requests: u32,
    /// True if the requests were writes.
    write: bool,
    /// The length of a request.
    request_bytes: u32,
    /// The number of requests that were under way at once.
    depth: u32,
    /// The number of bytes of all requests.
    total_bytes: u64,
    /// The time that they took.
    seconds: f64,
}

/// The document of `diskfs compare --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Compare {
    /// The header with the version and the command.
    diskfs: Header,
    /// True if the disks have the same contents.
    equal: bool,
    /// The offset of the first byte in which the disks differ; null if they are equal.
    first_difference_bytes: Option<u64>,
    /// The sizes of the two disks.
    size_bytes: [u64; 2],
}

/// The document of `diskfs measure --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Measure {
    /// The header with the version and the command.
    diskfs: Header,
    /// The size of the new image's file with what the source stores, without compression.
    required_bytes: u64,
    /// The size of the new image's file with the whole disk allocated.
    fully_allocated_bytes: u64,
}

/// The document of `diskfs oci --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Oci {
    /// The output of `build`.
    Built(OciBuilt),
    /// The output of `push`.
    Pushed(OciPushed),
}

/// The image that was pushed.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct OciPushed {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the image in the registry.
    uri: String,
    /// The digest of the manifest, which names the image.
    manifest_digest: String,
    /// The number of bytes of the blobs that were uploaded.
    uploaded_bytes: u64,
    /// The number of bytes of the blobs that the registry had.
    present_bytes: u64,
}

/// The image that was built.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct OciBuilt {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the new image layout.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The tag of the image.
    tag: String,
    /// The digest of the manifest, which names the image.
    manifest_digest: String,
    /// The digest of the layer.
    layer_digest: String,
    /// The path of the disk in the image.
    disk_path: String,
    /// The size of the disk's file.
    disk_bytes: u64,
    /// The size of the layer as it is stored.
    layer_bytes: u64,
}

/// The document of `diskfs map --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Map {
    /// The header with the version and the command.
    diskfs: Header,
    /// The ranges of the disk, in order and without gaps.
    extents: Vec<MapExtent>,
}

/// A range of the disk that is stored in one way.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct MapExtent {
    /// The offset in the disk.
    offset_bytes: u64,
    /// The length of the range.
    length_bytes: u64,
    /// The form: `data`, `compressed`, `zero` or `unallocated`.
    kind: String,
    /// The number of images above the one that stores the range.
    depth: u32,
    /// The offset in the file, except of compressed and unallocated ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_offset_bytes: Option<u64>,
    /// The file that stores the range, except for an unallocated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The file's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_base64: Option<String>,
}

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

/// The document of `diskfs check --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Check {
    /// The header with the version and the command.
    diskfs: Header,
    /// The result for the image itself; null for a raw image, and if a volume was selected.
    image: Option<CheckedImage>,
    /// The filesystems that were checked.
    volumes: Vec<Checked>,
}

/// The document of `diskfs hotplug --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Hotplug {
    Add(HotplugAdd),
    Remove(HotplugRemove),
    List(HotplugList),
}

/// A disk that was attached, or would be.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct HotplugAdd {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the disk, which is the ID of its device.
    name: String,
    /// The bus: scsi or virtio.
    bus: String,
    /// True if nothing was changed.
    dry_run: bool,
    /// The arguments of QEMU's command `blockdev-add`.
    blockdev_add: Value,
    /// The arguments of QEMU's command `device_add`.
    device_add: Value,
}

/// A disk that was detached, or would be.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct HotplugRemove {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the disk.
    removed: String,
    /// True if nothing was changed.
    dry_run: bool,
}

/// The disks that diskfs has attached.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct HotplugList {
    /// The header with the version and the command.
    diskfs: Header,
    /// The disks.
    disks: Vec<HotplugDisk>,
}

/// A disk that diskfs has attached.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct HotplugDisk {
    /// The name of the disk; null if no device uses it.
    name: Option<String>,
    /// The phase, as KubeVirt names it: Ready, or `AttachedToNode` if no device uses the disk.
    phase: String,
    /// The type of the device; null if no device uses the disk.
    driver: Option<String>,
    /// The name of the block node in QEMU.
    node: String,
    /// The size of the disk.
    size_bytes: u64,
    /// True if the guest cannot write to the disk.
    read_only: bool,
    /// The export, as QEMU names it.
    export: String,
}

/// The document of `diskfs seed --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Seed {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The kind of the seed: nocloud, configdrive or sysprep.
    kind: String,
    /// The volume identifier, by which the guest finds the disk.
    label: String,
    /// The size of the image.
    size_bytes: u64,
    /// The files in the image.
    files: Vec<SeedFile>,
}

/// A file in the image of a seed.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SeedFile {
    /// The path in the image.
    path: String,
    /// The size of the contents.
    size_bytes: u64,
}

/// The document of `diskfs fetch --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Fetch {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the copy.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The size of the file.
    size_bytes: u64,
    /// The space that the host has allocated for the copy.
    allocated_bytes: u64,
    /// The number of bytes that an earlier call had copied.
    resumed_bytes: u64,
    /// The checksum of the file, with its algorithm, if one was expected.
    checksum: Option<String>,
}

/// The document of `diskfs import --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Import {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path of the new image.
    path: String,
    /// The image's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The format of the new image.
    format: String,
    /// The size of the guest's disk.
    virtual_size_bytes: u64,
    /// The size of the image file.
    file_size_bytes: u64,
    /// The space that the host has allocated for the image file.
    allocated_bytes: u64,
    /// The format of the image on the server.
    source_format: String,
    /// The policy by which the image was validated.
    policy: String,
    /// The checksum of the file on the server, with its algorithm, if one was expected.
    checksum: Option<String>,
}

/// The document of `diskfs validate --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Validate {
    /// The header with the version and the command.
    diskfs: Header,
    /// The policy.
    policy: String,
    /// True if all images are accepted.
    accepted: bool,
    /// The images that could be read, in the order of the command line.
    images: Vec<ValidatedImage>,
}

/// An image that was validated.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ValidatedImage {
    /// The path of the image.
    image: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
    /// True if the image breaks no rule.
    accepted: bool,
    /// The name of the format that was found.
    format: String,
    /// The size of the disk in bytes as the image states it; null if that could not be read.
    virtual_size_bytes: Option<u64>,
    /// The rules that the image breaks.
    broken_rules: Vec<BrokenRule>,
    /// Properties that break no rule.
    notes: Vec<String>,
}

/// A rule that an image breaks.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct BrokenRule {
    /// The name of the rule, which stays the same.
    rule: String,
    /// A sentence with the values of the image.
    message: String,
    /// The offset in the file of the field that breaks the rule; null if it is not one field.
    offset_bytes: Option<u64>,
}

/// A qcow2 image that was checked.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CheckedImage {
    /// True if nothing was found.
    clean: bool,
    /// True if something was repaired; the other fields describe the image afterwards.
    repaired: bool,
    /// The number of clusters that are counted as used, but are not.
    leaked_clusters: u64,
    /// The number of errors that endanger data.
    corruptions: u64,
    /// The number of tables that could not be read.
    check_errors: u64,
    /// The first findings.
    findings: Vec<ImageFinding>,
    /// The number of findings that are not listed.
    omitted_findings: u64,
    /// The end of the last cluster in use, in bytes of the file.
    image_end_bytes: u64,
    /// The number of clusters of the guest's disk.
    total_clusters: u64,
    /// The number of clusters that are allocated.
    allocated_clusters: u64,
    /// The number of clusters that do not follow the previous one in the file.
    fragmented_clusters: u64,
    /// The number of compressed clusters.
    compressed_clusters: u64,
}

/// An error in the tables of an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ImageFinding {
    /// The code of its kind, which stays the same.
    code: String,
    /// The offset in the file.
    offset: u64,
    /// The description.
    detail: String,
}

/// A filesystem that was checked.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Checked {
    /// The name of the volume.
    volume: String,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    /// True if the filesystem is undamaged.
    clean: bool,
    /// The findings as lines of text, or the output of the program.
    said: String,
    /// The findings in the order of the phases; only if diskfs itself has checked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<Finding>>,
    /// The number of all findings; `findings` has at most 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_findings: Option<u64>,
    /// Notes about what limits the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
}

/// An inconsistency that a check found.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Finding {
    /// The code of its kind, which stays the same.
    code: String,
    /// A sentence with the actual and expected values.
    detail: String,
    /// The block group.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u64>,
    /// The inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    /// The block of the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    /// The path of the inode, if it is a directory that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The bytes of the path in base64, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The name in the directory, or of the attribute.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The bytes of the name in base64, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
}

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

/// The document of `diskfs rebase --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Rebase {
    /// The header with the version and the command.
    diskfs: Header,
    /// The number of bytes that were written to the overlay.
    written_bytes: u64,
}

/// The document of `diskfs commit --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Commit {
    /// The header with the version and the command.
    diskfs: Header,
    /// The number of bytes that were written to the backing file.
    written_bytes: u64,
    /// True if the overlay was emptied.
    emptied: bool,
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

/// The document of `diskfs snapshot --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum SnapshotDocument {
    /// The output of `list`.
    List(SnapshotList),
    /// The output of `create`, `apply` and `delete`.
    Done(SnapshotDone),
}

/// The snapshots of an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SnapshotList {
    /// The header with the version and the command.
    diskfs: Header,
    /// The snapshots of the image.
    snapshots: Vec<Snapshot>,
}

/// A snapshot that was created, applied or deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SnapshotDone {
    /// The header with the version and the command.
    diskfs: Header,
    /// The snapshot's name or ID.
    snapshot: String,
}

/// An internal snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Snapshot {
    /// The ID of the snapshot.
    id: String,
    /// The name of the snapshot.
    name: String,
    /// The time when the snapshot was created (RFC 3339).
    taken_at: String,
    /// The size of the disk in the snapshot.
    virtual_size_bytes: Option<u64>,
    /// The size of the virtual machine's saved state.
    vm_state_bytes: u64,
}

/// The document of `diskfs amend --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Amend {
    /// The header with the version and the command.
    diskfs: Header,
    /// The names of the options, which now have the given values.
    options: Vec<String>,
    /// The change of keys; null if no key option was given.
    keys: Option<AmendedKeys>,
}

/// The key slots of an encrypted image after a change, by their numbers.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AmendedKeys {
    /// The key slot with the new key.
    added: Option<u32>,
    /// The key slots that were erased.
    removed: Vec<u32>,
    /// The key slots that are in use now.
    in_use: Vec<u32>,
}

/// The document of `diskfs bitmap --json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum BitmapDocument {
    /// The output of `list` and `add`.
    List(BitmapList),
    /// The output of `remove`, `clear`, `enable`, `disable`, `merge` and `checkpoint`.
    Done(BitmapDone),
}

/// The dirty bitmaps of an image, or the new one.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BitmapList {
    /// The header with the version and the command.
    diskfs: Header,
    /// The bitmaps, in the order of the image.
    bitmaps: Vec<Bitmap>,
}

/// A bitmap that was changed or removed.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BitmapDone {
    /// The header with the version and the command.
    diskfs: Header,
    /// The name of the bitmap.
    bitmap: String,
}

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
