//! The JSON output of commands that read files.
//!
//! The schemas are generated from these types. A test compares the output of every command with
//! them.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;

/// The header of a document.
#[derive(Serialize, JsonSchema)]
pub(super) struct Header {
    /// The version of the documents, raised when a field changes its meaning or is removed.
    version: u32,
    /// The name of the command that printed the document.
    command: String,
}

/// A file of the guest.
#[derive(Serialize, JsonSchema)]
pub(super) struct File {
    /// The path in the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The type of the file.
    #[serde(rename = "type")]
    kind: FileKind,
    /// The inode number.
    inode: u64,
    /// The permission bits, in octal.
    mode: String,
    /// The user ID of the owner.
    uid: u32,
    /// The group ID of the owner.
    gid: u32,
    /// The number of hard links.
    links: u64,
    /// The size of the contents.
    size_bytes: u64,
    /// The space that is allocated for the contents.
    allocated_bytes: u64,
    /// The time when the contents were last changed (RFC 3339).
    modified: String,
    /// The time when the inode was last changed (RFC 3339).
    changed: String,
    /// The time when the contents were last read (RFC 3339).
    accessed: String,
    /// The time when the file was created (RFC 3339), if the filesystem records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// The device number of a device node.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
}

/// The type of a file.
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

/// The device number of a device node.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Device {
    /// The major number, which selects the driver.
    major: u32,
    /// The minor number, which selects the driver's device.
    minor: u32,
}

/// The target of a symlink.
#[derive(Serialize, JsonSchema)]
pub(super) struct Target {
    /// The target, as it is stored in the symlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The target's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_base64: Option<String>,
}

/// The owner's names, if the guest's /etc/passwd and /etc/group contain them.
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
pub(super) struct Xattr {
    /// The full name of the attribute.
    name: String,
    /// The name's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    /// The value of the attribute, in base64.
    value_base64: String,
}

/// The image that contains a file.
#[derive(Serialize, JsonSchema)]
pub(super) struct Image {
    /// The image's path on the host.
    image: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
}

/// The usage of a filesystem.
#[derive(Serialize, JsonSchema)]
pub(super) struct Statistics {
    /// The size of the filesystem.
    size_bytes: u64,
    /// The space in use.
    used_bytes: u64,
    /// The free space, including the root reserve.
    free_bytes: u64,
    /// The free space for users other than root.
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
    /// The header with the version and the command.
    diskfs: Header,
    /// The listed files.
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
    /// The name's bytes in base64, if it is not valid UTF-8.
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
    /// The header with the version and the command.
    diskfs: Header,
    /// The files, each directory before its contents.
    entries: Vec<TreeEntry>,
}

/// A file in a tree.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct TreeEntry {
    #[serde(flatten)]
    file: File,
    /// The number of directories between the start and this file.
    depth: u64,
    #[serde(flatten)]
    target: Target,
}

/// An extent of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Extent {
    /// The offset in the file.
    offset_bytes: u64,
    /// The length.
    length_bytes: u64,
    /// The kind of storage.
    kind: ExtentKind,
    /// The offset in the volume, for stored extents.
    volume_offset_bytes: Option<u64>,
}

/// The kind of storage of an extent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ExtentKind {
    /// Stored contiguously in the volume.
    Stored,
    /// Stored in the inode, in the journal or compressed.
    Inline,
    /// Not stored: reads as zeroes.
    Hole,
}

/// The document of `diskfs find --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs find", deny_unknown_fields)]
pub(super) struct Find {
    /// The header with the version and the command.
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
    /// The header with the version and the command.
    diskfs: Header,
    /// The files with their metadata.
    entries: Vec<StatEntry>,
}

/// The metadata of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StatEntry {
    #[serde(flatten)]
    file: File,
    #[serde(flatten)]
    names: Names,
    /// The inode generation.
    generation: u64,
    /// The preferred block size for I/O.
    block_size_bytes: u64,
    /// The flags of the inode, as lsattr(1) names them.
    flags: Vec<String>,
    #[serde(flatten)]
    target: Target,
    /// The extended attributes.
    xattrs: Vec<Xattr>,
    /// The extents of a regular file, with --extents.
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<Vec<Extent>>,
    /// The volume that stores the extents; null if it is not that of the root directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
}

/// The document of `diskfs hash --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs hash", deny_unknown_fields)]
pub(super) struct Hash {
    /// The header with the version and the command.
    diskfs: Header,
    /// The files, sorted by name.
    entries: Vec<HashEntry>,
}

/// A file with its hash.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct HashEntry {
    #[serde(flatten)]
    file: File,
    /// The SHA-256 hash of a regular file's contents, in hexadecimal.
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
    /// The header with the version and the command.
    diskfs: Header,
    /// The directories, and the files if they are requested.
    entries: Vec<DuEntry>,
    /// The sum of all operands.
    total: Space,
}

/// The space that files take.
#[derive(Serialize, JsonSchema)]
struct Space {
    /// The allocated space.
    allocated_bytes: u64,
    /// The sizes of regular files and symlinks.
    size_bytes: u64,
    /// The number of files.
    inodes: u64,
}

/// A directory with everything below it, or a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DuEntry {
    #[serde(flatten)]
    image: Image,
    /// The path in the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The type of the file.
    #[serde(rename = "type")]
    kind: FileKind,
    /// The number of directories between the start and this one.
    depth: u64,
    #[serde(flatten)]
    space: Space,
}

/// The document of `diskfs df --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs df", deny_unknown_fields)]
pub(super) struct Df {
    /// The header with the version and the command.
    diskfs: Header,
    /// The filesystems with their usage.
    filesystems: Vec<DfEntry>,
}

/// A filesystem with its usage.
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
    /// The header with the version and the command.
    diskfs: Header,
    /// The matching lines, or the files with a match.
    matches: Vec<GrepEntry>,
}

/// A matching line, or a file with a match.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct GrepEntry {
    #[serde(flatten)]
    image: Image,
    /// The path in the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The line's number, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_number: Option<u64>,
    /// The line without its newline.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// The line's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_base64: Option<String>,
    /// The matching parts of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<Vec<Span>>,
    /// True for a context line, which does not match itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<bool>,
    /// True for a binary file that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    /// The number of matching lines, with `--count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// A range of bytes.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Span {
    /// The first byte, from 0.
    start: u64,
    /// The byte after the last one.
    end: u64,
}

/// The document of `diskfs diff --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs diff", deny_unknown_fields)]
pub(super) struct Diff {
    /// The header with the version and the command.
    diskfs: Header,
    /// The differences, sorted by name.
    differences: Vec<Difference>,
    /// The number of files by result.
    counts: DiffCounts,
}

/// A file that differs between the two sides.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Difference {
    /// The kind of difference.
    change: DiffChange,
    /// The path on the first side, or on the second side for an added file.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The aspects that differ, for a file on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<Vec<String>>,
    /// The file on the first side.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<FindEntry>,
    /// The file on the second side.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<FindEntry>,
    /// The difference of the contents in the form of `diff -u`, with --unified.
    #[serde(skip_serializing_if = "Option::is_none")]
    unified: Option<String>,
    /// The bytes of `unified` in base64, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    unified_base64: Option<String>,
}

/// The kind of difference of a file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DiffChange {
    Added,
    Removed,
    Modified,
}

/// The number of files by result.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DiffCounts {
    /// The number of files that exist only on the second side.
    added: u64,
    /// The number of files that exist only on the first side.
    removed: u64,
    /// The number of files that differ.
    modified: u64,
    /// The number of files that are the same.
    same: u64,
    /// The number of bytes of contents that were read for the comparison.
    read_bytes: u64,
}
