//! The disk of a plan.

use serde::{Deserialize, Serialize};

use super::Size;

/// The disk: its size, format and partition table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DiskPlan {
    /// The size of the disk. More than the partitions need goes to the one with the size `rest`.
    #[serde(default)]
    pub size: Size,
    /// The format of the image. Default: qcow2 for a name in .qcow2, else raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// True to compress the clusters of a qcow2 image.
    #[serde(default)]
    pub compress: bool,
    /// The kind of the partition table.
    #[serde(default)]
    pub table: TablePlan,
    /// The identifier of the disk: the GUID of a GPT, or the signature of an MBR in hexadecimal
    /// digits. Default: derived from the seed, else random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The sector size that the machine will see: 512 or 4096 bytes.
    #[serde(default = "sector_size")]
    pub sector_size: u32,
}

impl Default for DiskPlan {
    fn default() -> Self {
        Self {
            size: Size::default(),
            format: None,
            compress: false,
            table: TablePlan::default(),
            id: None,
            sector_size: sector_size(),
        }
    }
}

const fn sector_size() -> u32 {
    512
}

/// A format of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ImageFormat {
    /// The bytes of the disk, with holes.
    Raw,
    /// QEMU's format, which stores only clusters that were written.
    Qcow2,
}

/// A kind of partition table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TablePlan {
    /// A GUID partition table.
    #[default]
    Gpt,
    /// A master boot record with up to four partitions.
    Mbr,
    /// No table: the contents of the only partition are those of the whole disk.
    None,
}
