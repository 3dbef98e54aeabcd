//! Volume groups of a plan.

use serde::{Deserialize, Serialize};

use super::{FilesystemPlan, LuksPlan, Size};

/// An LVM volume group on one physical volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LvmPlan {
    /// The name of the group.
    pub group: String,
    /// The logical volumes.
    pub volumes: Vec<LogicalVolumePlan>,
}

/// A linear logical volume, with at most one of the keys `filesystem` and `luks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogicalVolumePlan {
    /// The name within the group.
    pub name: String,
    /// The size, which is rounded up to whole extents of 4 MiB.
    #[serde(default)]
    pub size: Size,
    /// A filesystem or a swap area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemPlan>,
    /// A LUKS2 volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luks: Option<Box<LuksPlan>>,
}
