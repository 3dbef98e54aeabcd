//! The JSON output of commands that copy or change files.

#![expect(dead_code, reason = "the types are only used for their schemas")]
#![expect(
    clippy::struct_field_names,
    reason = "the names of fields are those of the documents"
)]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{FileKind, Header, Xattr};

/// The changes of a command that changes files; they are listed with `--dry-run`.
#[derive(Serialize, JsonSchema)]
struct Changes {
    /// True if nothing was written.
    dry_run: bool,
    /// The changes that would be made; empty without `--dry-run`.
    changes: Vec<Change>,
    /// The number of bytes of the disk that would change, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// The changes that would be made to one file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Change {
    /// The path in the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The kinds of changes to the file.
    what: Vec<ChangeKind>,
    /// The type of a file that would be created.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<FileKind>,
    /// The new path of a file that would be renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_to: Option<String>,
    /// The new path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_to_base64: Option<String>,
    /// The additional name of a file that would be linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_as: Option<String>,
    /// The additional name's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_as_base64: Option<String>,
}

/// A kind of change to a file.
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
    /// The header with the version and the command.
    diskfs: Header,
    #[serde(flatten)]
    changes: Changes,
}

/// The document of `diskfs tar-in --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs tar-in", deny_unknown_fields)]
pub(super) struct TarIn {
    /// The header with the version and the command.
    diskfs: Header,
    /// The number of files that were unpacked; missing after an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(flatten)]
    changes: Changes,
}

/// The result of a copy.
#[derive(Serialize, JsonSchema)]
struct Copied {
    /// The number of files that were copied.
    files: u64,
    /// The number of bytes of contents that were copied.
    copied_bytes: u64,
    /// The number of files whose owner was not preserved.
    owners_ignored: u64,
    /// The number of extended attributes that were not preserved.
    xattrs_ignored: u64,
    /// The number of devices and sockets that were not copied.
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
    /// The header with the version and the command.
    diskfs: Header,
    #[serde(flatten)]
    copied: Copied,
}

/// A copy into an image.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct CopyInto {
    /// The header with the version and the command.
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
    /// The output of `list` and `get`.
    Shown(XattrShown),
    /// The output of `set` and `remove`.
    Changed(Changing),
}

/// The extended attributes of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct XattrShown {
    /// The header with the version and the command.
    diskfs: Header,
    /// The path in the image.
    path: String,
    /// The path's bytes in base64, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    /// The attributes: all of them, or the requested one.
    xattrs: Vec<Xattr>,
}
