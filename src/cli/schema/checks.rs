//! The JSON output of commands that check, compare and measure images.

use schemars::JsonSchema;
use serde::Serialize;

use super::files::Header;

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
