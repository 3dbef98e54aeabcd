//! Partitions of a plan.

use serde::{Deserialize, Serialize};

use super::{ContentsPlan, FilesystemPlan, LuksPlan, LvmPlan, Size};

/// A partition, with at most one of the keys `filesystem`, `luks` and `lvm`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PartitionPlan {
    /// The name in a GPT, at most 36 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The type: a name such as `esp`, `bios-boot`, `linux`, `root-x86-64`, `lvm` or `swap`, a GUID,
    /// or a byte such as 0x83. Default: depends on the contents.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub partition_type: Option<String>,
    /// The size.
    #[serde(default)]
    pub size: Size,
    /// The GUID in a GPT. Default: derived from the seed, else random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The flags: `active` in an MBR; `required`, `legacy-boot`, `no-auto`, `read-only`, `grow-fs`
    /// and others in a GPT.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// A filesystem or a swap area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemPlan>,
    /// A LUKS2 volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luks: Option<Box<LuksPlan>>,
    /// An LVM volume group on this partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lvm: Option<LvmPlan>,
}

impl PartitionPlan {
    /// Returns a partition that fits its contents.
    pub fn new(contents: ContentsPlan) -> Self {
        let mut partition = Self::default();
        match contents {
            ContentsPlan::Empty => {}
            ContentsPlan::Filesystem(filesystem) => partition.filesystem = Some(filesystem),
            ContentsPlan::Luks(luks) => partition.luks = Some(luks),
            ContentsPlan::Lvm(lvm) => partition.lvm = Some(lvm),
        }
        partition
    }
}
