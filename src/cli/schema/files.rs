//! What commands print with `--json` that look at files.
//!
//! The types are what the schemas are made from, and a test of every command holds that what is printed is what they say.

#![expect(dead_code, reason = "the schemas are what is used of the types")]

use schemars::JsonSchema;
use serde::Serialize;

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
pub(super) struct Target {
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
pub(super) struct Xattr {
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
pub(super) struct Image {
    /// The image's path on the host.
    image: String,
    /// The path's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
}

/// How full a filesystem is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Statistics {
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
