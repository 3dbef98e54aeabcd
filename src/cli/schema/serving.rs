//! The JSON output of commands that make disks available to others.

#![expect(dead_code, reason = "the types are only used for their schemas")]

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::files::Header;

/// The document of `diskfs browse --json`, which is printed when the page can be opened.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Browse {
    /// The header with the version and the command.
    diskfs: Header,
    /// The address of the page, with its token.
    url: String,
}

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
