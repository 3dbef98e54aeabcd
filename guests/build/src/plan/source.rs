//! The sources of files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A source of files, with exactly one of the keys `directory`, `tar`, `oci`, `file` and `text`.
/// Relative paths start at the directory of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourcePlan {
    /// A directory of the host, with everything below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// A tar archive, plain or compressed with gzip, bzip2, zstd, xz or lz4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tar: Option<PathBuf>,
    /// An OCI image layout or an archive of `docker save`, as `PATH` or `PATH:TAG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
    /// A file of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The contents of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The path in the image: of the directory for `directory`, `tar` and `oci` (default: the root),
    /// of the file itself for `file` and `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The user and the group of all files of `directory`, `file` and `text`, as `UID:GID`. Default:
    /// those of the host, and root for `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The mode of the file in octal digits, as `"0644"`, for `file` and `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
