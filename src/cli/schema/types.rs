//! What commands print with `--json`, as types. The schemas are made from these, and a test of every command holds that
//! what is printed is what they say.

#![expect(dead_code, reason = "their schemas are what is used of them")]
#![expect(
    clippy::struct_field_names,
    clippy::struct_excessive_bools,
    reason = "fields are called as the documents have them"
)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What made the document.
#[derive(Serialize, JsonSchema)]
pub(super) struct Header {
    /// The version of the documents: raised when a field changes its meaning or goes away.
    version: u32,
    /// The command.
    command: String,
}

/// A file of the guest.
#[derive(Serialize, JsonSchema)]
pub(super) struct File {
    /// The path in the image.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The kind of file.
    #[serde(rename = "type")]
    kind: FileKind,
    /// The inode's number.
    inode: u64,
    /// Permission bits, in octal.
    mode: String,
    /// The owner's number.
    uid: u32,
    /// The group's number.
    gid: u32,
    /// The number of names.
    links: u64,
    /// The size of the contents.
    size_bytes: u64,
    /// What is allocated for the contents.
    allocated_bytes: u64,
    /// When the contents were last changed (RFC 3339).
    modified: String,
    /// When the inode was last changed (RFC 3339).
    changed: String,
    /// When the contents were last read (RFC 3339).
    accessed: String,
    /// When the file was made (RFC 3339), where the filesystem records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// The number of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
}

/// The kind of file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileKind {
    File,
    Directory,
    Symlink,
    BlockDevice,
    CharacterDevice,
    Fifo,
    Socket,
}

/// The number of a device.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Device {
    /// The driver's number.
    major: u32,
    /// The device's number for the driver.
    minor: u32,
}

/// The target of a symlink.
#[derive(Serialize, JsonSchema)]
struct Target {
    /// The target, as it stands in the symlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The target's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_base64: Option<String>,
}

/// The owner's names, where the guest's /etc/passwd and /etc/group have them.
#[derive(Serialize, JsonSchema)]
struct Names {
    /// The owner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

/// An extended attribute.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Xattr {
    /// The whole name.
    name: String,
    /// The name's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    /// The value.
    value_base64: String,
}

/// The image that a file is in.
#[derive(Serialize, JsonSchema)]
struct Image {
    /// The image's path on the host.
    image: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
}

/// How full a filesystem is.
#[derive(Serialize, JsonSchema)]
struct Statistics {
    /// The size of the filesystem.
    size_bytes: u64,
    /// What is in use.
    used_bytes: u64,
    /// What is free.
    free_bytes: u64,
    /// What is free for users other than root.
    available_bytes: u64,
    /// The size of a block.
    block_size_bytes: u64,
    /// The number of inodes.
    inodes: u64,
    /// The number of free inodes.
    inodes_free: u64,
}

/// The document of `diskfs ls --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs ls", deny_unknown_fields)]
pub(super) struct Ls {
    /// What made the document.
    diskfs: Header,
    /// The files.
    entries: Vec<LsEntry>,
}

/// A file in a listing.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LsEntry {
    #[serde(flatten)]
    file: File,
    /// The file's name.
    name: String,
    /// The name's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    #[serde(flatten)]
    names: Names,
    #[serde(flatten)]
    target: Target,
}

/// The document of `diskfs tree --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs tree", deny_unknown_fields)]
pub(super) struct Tree {
    /// What made the document.
    diskfs: Header,
    /// The files, a directory before what is in it.
    entries: Vec<TreeEntry>,
}

/// A file in a tree.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct TreeEntry {
    #[serde(flatten)]
    file: File,
    /// How many directories below the start it is.
    depth: u64,
    #[serde(flatten)]
    target: Target,
}

/// The document of `diskfs find --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs find", deny_unknown_fields)]
pub(super) struct Find {
    /// What made the document.
    diskfs: Header,
    /// The files that were found.
    entries: Vec<FindEntry>,
}

/// A file that was found.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FindEntry {
    #[serde(flatten)]
    file: File,
    #[serde(flatten)]
    target: Target,
}

/// The document of `diskfs stat --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs stat", deny_unknown_fields)]
pub(super) struct Stat {
    /// What made the document.
    diskfs: Header,
    /// The files.
    entries: Vec<StatEntry>,
}

/// All there is to know about a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StatEntry {
    #[serde(flatten)]
    file: File,
    #[serde(flatten)]
    names: Names,
    /// The inode's generation.
    generation: u64,
    /// The size of a block.
    block_size_bytes: u64,
    /// The inode's flags, as lsattr(1) names them.
    flags: Vec<String>,
    #[serde(flatten)]
    target: Target,
    /// The extended attributes.
    xattrs: Vec<Xattr>,
}

/// The document of `diskfs hash --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs hash", deny_unknown_fields)]
pub(super) struct Hash {
    /// What made the document.
    diskfs: Header,
    /// The files, by name.
    entries: Vec<HashEntry>,
}

/// A file with its hash.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct HashEntry {
    #[serde(flatten)]
    file: File,
    /// The hash of a regular file's contents, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(flatten)]
    target: Target,
    /// The extended attributes.
    xattrs: Vec<Xattr>,
}

/// The document of `diskfs du --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs du", deny_unknown_fields)]
pub(super) struct Du {
    /// What made the document.
    diskfs: Header,
    /// The directories, and files where they are asked for.
    entries: Vec<DuEntry>,
    /// The sum of what was named.
    total: Space,
}

/// How much room something takes.
#[derive(Serialize, JsonSchema)]
struct Space {
    /// What is allocated.
    allocated_bytes: u64,
    /// The sizes of regular files and symlinks.
    size_bytes: u64,
    /// The number of files.
    inodes: u64,
}

/// A directory with all below it, or a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DuEntry {
    #[serde(flatten)]
    image: Image,
    /// The path in the image.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The kind of file.
    #[serde(rename = "type")]
    kind: FileKind,
    /// How many directories below the start it is.
    depth: u64,
    #[serde(flatten)]
    space: Space,
}

/// The document of `diskfs df --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs df", deny_unknown_fields)]
pub(super) struct Df {
    /// What made the document.
    diskfs: Header,
    /// The filesystems.
    filesystems: Vec<DfEntry>,
}

/// How full a filesystem is.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DfEntry {
    #[serde(flatten)]
    image: Image,
    /// The volume's name.
    volume: String,
    /// The filesystem's type.
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    statistics: Statistics,
}

/// The document of `diskfs grep --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs grep", deny_unknown_fields)]
pub(super) struct Grep {
    /// What made the document.
    diskfs: Header,
    /// The lines that match, or the files.
    matches: Vec<GrepEntry>,
}

/// A line that matches, or a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct GrepEntry {
    #[serde(flatten)]
    image: Image,
    /// The path in the image.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The line's number, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_number: Option<u64>,
    /// The line without its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// The line's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_base64: Option<String>,
    /// The places in the line that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<Vec<Span>>,
    /// True for a line that is shown for those beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<bool>,
    /// True for a file that is not text, and matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    /// The number of lines that match, with -c.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// A range of bytes.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Span {
    /// The first byte, from 0.
    start: u64,
    /// The byte behind the last one.
    end: u64,
}

/// The document of `diskfs diff --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs diff", deny_unknown_fields)]
pub(super) struct Diff {
    /// What made the document.
    diskfs: Header,
    /// The differences, by name.
    differences: Vec<Difference>,
    /// How many files there are of each kind.
    counts: DiffCounts,
}

/// A file that is not the same on both sides.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Difference {
    /// What became of the file.
    change: DiffChange,
    /// The path on the first side, or on the second for one that was added.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// What differs, of a file on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<Vec<String>>,
    /// The file on the first side.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<FindEntry>,
    /// The file on the second side.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<FindEntry>,
}

/// What became of a file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DiffChange {
    Added,
    Removed,
    Modified,
}

/// How many files there are of each kind.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DiffCounts {
    /// Files on the second side only.
    added: u64,
    /// Files on the first side only.
    removed: u64,
    /// Files that differ.
    modified: u64,
    /// Files that are the same.
    same: u64,
    /// What was read of contents to compare them.
    read_bytes: u64,
}

/// What commands that change files print: the changes are there with `--dry-run`.
#[derive(Serialize, JsonSchema)]
struct Changes {
    /// True if nothing was written.
    dry_run: bool,
    /// What would change; empty without `--dry-run`.
    changes: Vec<Change>,
    /// How many bytes of the disk would change, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// What would change of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Change {
    /// The path in the image.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// What would change.
    what: Vec<ChangeKind>,
    /// The kind of a file that would be made.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<FileKind>,
    /// The new path of a file that would be renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_to: Option<String>,
    /// The new path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_to_base64: Option<String>,
    /// The further name of a file that would be linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_as: Option<String>,
    /// The further name's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_as_base64: Option<String>,
}

/// What would change of a file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ChangeKind {
    Created,
    Removed,
    Renamed,
    Linked,
    Contents,
    Mode,
    Owner,
    Times,
    Flags,
    Xattrs,
}

/// The document of a command that changes files.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Changing {
    /// What made the document.
    diskfs: Header,
    #[serde(flatten)]
    changes: Changes,
}

/// The document of `diskfs tar-in --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs tar-in", deny_unknown_fields)]
pub(super) struct TarIn {
    /// What made the document.
    diskfs: Header,
    /// How many files were unpacked; missing after an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(flatten)]
    changes: Changes,
}

/// What a copy did.
#[derive(Serialize, JsonSchema)]
struct Copied {
    /// How many files were copied.
    files: u64,
    /// How many bytes of contents were copied.
    copied_bytes: u64,
    /// Files whose owner was not kept.
    owners_ignored: u64,
    /// Extended attributes that were not kept.
    xattrs_ignored: u64,
    /// Devices and sockets that were left out.
    specials_ignored: u64,
}

/// The document of `diskfs cp --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs cp")]
#[serde(untagged)]
pub(super) enum Cp {
    /// A copy out of an image.
    Out(CopyOut),
    /// A copy into an image.
    Into(CopyInto),
}

/// A copy out of an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct CopyOut {
    /// What made the document.
    diskfs: Header,
    #[serde(flatten)]
    copied: Copied,
}

/// A copy into an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct CopyInto {
    /// What made the document.
    diskfs: Header,
    #[serde(flatten)]
    copied: Copied,
    #[serde(flatten)]
    changes: Changes,
}

/// The document of `diskfs xattr --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs xattr")]
#[serde(untagged)]
pub(super) enum XattrDocument {
    /// Of `list` and `get`.
    Shown(XattrShown),
    /// Of `set` and `remove`.
    Changed(Changing),
}

/// The attributes of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct XattrShown {
    /// What made the document.
    diskfs: Header,
    /// The path in the image.
    path: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The attributes: all of them, or the one that is asked for.
    xattrs: Vec<Xattr>,
}

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
