//! The JSON output of commands that create images, and copies of images.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;

use super::files::Header;

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
