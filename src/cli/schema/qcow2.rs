//! The JSON output of commands that change qcow2 images as a whole.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::Header;
use super::info::Bitmap;

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
