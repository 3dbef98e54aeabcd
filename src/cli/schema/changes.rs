//! What commands print with `--json` that copy files, or change them.

#![expect(dead_code, reason = "the schemas are what is used of the types")]
#![expect(
    clippy::struct_field_names,
    reason = "fields are called as the documents have them"
)]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{FileKind, Header, Xattr};

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
