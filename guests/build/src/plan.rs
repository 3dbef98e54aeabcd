//! Plans of disk images.

mod bootloader;
mod contents;
mod disk;
mod filesystem;
mod key;
mod luks;
mod lvm;
mod partition;
mod size;
mod source;

use serde::{Deserialize, Serialize};

use diskfs_deploy::Step;
use diskfs_disk::Result;

pub use bootloader::{BootloaderKind, BootloaderPlan};
pub use contents::ContentsPlan;
pub use disk::{DiskPlan, ImageFormat, TablePlan};
pub use filesystem::{FilesystemKind, FilesystemPlan};
pub use key::KeySource;
pub use luks::{LuksPlan, PbkdfPlan};
pub use lvm::{LogicalVolumePlan, LvmPlan};
pub use partition::PartitionPlan;
pub use size::{Extra, Size};
pub use source::SourcePlan;

/// A plan of a disk image: partitions and their contents, files, and a boot loader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The disk: its size, format and partition table.
    #[serde(default)]
    pub disk: DiskPlan,
    /// The text from which all identifiers without a value in the plan are derived: the same plan
    /// then always makes the same bytes. Default: random identifiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// The time that filesystems record, in seconds since 1970. Default: the environment variable
    /// `SOURCE_DATE_EPOCH`, else the present time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u32>,
    /// The partitions, in the order of the disk.
    pub partitions: Vec<PartitionPlan>,
    /// The files, in layers: each source replaces files of those before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlan>,
    /// The boot loader, which is copied from the files to the EFI system partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<BootloaderPlan>,
    /// False to keep `/etc/fstab` and `/etc/crypttab` of the sources. By default they are written
    /// from the plan, if it has sources and a root filesystem.
    #[serde(default = "yes")]
    pub fstab: bool,
    /// The steps of a deploy plan, which are applied to the complete image; `diskfs deploy
    /// --list-steps` lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Value>"))]
    pub deploy: Vec<Step>,
}

const fn yes() -> bool {
    true
}

impl Plan {
    /// Parses a plan from YAML or JSON (JSON is a subset of YAML).
    ///
    /// # Errors
    /// `Invalid` with the line number if the text is not a valid plan.
    pub fn parse(text: &str) -> Result<Self> {
        diskfs_deploy::parse_plan(text)
    }

    /// Returns the simplest plan for a bootable or a plain system: the files of one source on one
    /// ext4 filesystem that fits, in a GPT; with a system partition if there is a boot loader.
    pub fn simple(source: SourcePlan, has_boot_loader: bool) -> Self {
        let root = FilesystemPlan {
            label: "root".to_owned(),
            mount: Some("/".to_owned()),
            ..FilesystemPlan::new(FilesystemKind::Ext4)
        };
        let root = PartitionPlan {
            name: "root".to_owned(),
            size: Size::Rest,
            ..PartitionPlan::new(ContentsPlan::Filesystem(root))
        };
        let mut partitions = vec![root];
        if has_boot_loader {
            let esp = FilesystemPlan {
                label: "ESP".to_owned(),
                mount: Some("/boot/efi".to_owned()),
                ..FilesystemPlan::new(FilesystemKind::Fat)
            };
            let esp = PartitionPlan {
                name: "esp".to_owned(),
                partition_type: Some("esp".to_owned()),
                size: Size::Fit(Extra::Bytes(32 << 20)),
                ..PartitionPlan::new(ContentsPlan::Filesystem(esp))
            };
            partitions.insert(0, esp);
        }
        Self {
            partitions,
            sources: vec![source],
            bootloader: has_boot_loader.then(BootloaderPlan::default),
            fstab: true,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = include_str!("../tests/everything.yaml");

    #[test]
    fn a_plan_with_every_key_is_written_as_it_was_read() {
        let plan = Plan::parse(EVERYTHING).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(Plan::parse(&text).unwrap(), plan);
    }

    #[test]
    fn unknown_keys_are_reported_with_their_line() {
        let text = "partitions:\n  - size: 1G\n    filesytem: {type: ext4}\n";
        let error = Plan::parse(text).unwrap_err().to_string();
        assert!(
            error.contains("filesytem") && error.contains('3'),
            "{error}"
        );
        let error = Plan::parse("partitions: [{size: 1X}]").unwrap_err();
        assert!(error.to_string().contains("1X"), "{error}");
    }
}
