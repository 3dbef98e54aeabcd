//! The creation of filesystems.

use diskfs_disk::{
    ExfatOptions, ExtKind, ExtOptions, FatOptions, NewFilesystem, Result, SwapOptions, Volume,
};
use diskfs_image::create::Existing;
use diskfs_vfs::Timestamp;

use crate::plan::FilesystemKind;
use crate::problem::at;
use crate::slot::FilesystemSlot;

/// A filesystem that the program of its type creates, in a microVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFilesystem {
    /// The type: `xfs` or `btrfs`.
    pub kind: &'static str,
    /// The label; empty for none.
    pub label: String,
    /// The UUID.
    pub uuid: String,
}

/// A function that creates a filesystem on a volume by the program of its type.
pub type FormatByTool<'a> = &'a dyn Fn(&ToolFilesystem, &Volume) -> Result<()>;

/// The details of new filesystems that their slots don't have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatDetails {
    pub(crate) time: Timestamp,
    /// True if the image must be reproducible.
    pub(crate) is_time_fixed: bool,
    pub(crate) sector_bytes: u32,
    /// The number of inodes of ext2, ext3 and ext4; `None` for the default.
    pub(crate) inodes: Option<u64>,
}

/// Returns the options of ext2, ext3 and ext4 without a number of inodes.
pub(crate) fn ext_options(slot: &FilesystemSlot, kind: ExtKind, time: Timestamp) -> ExtOptions {
    ExtOptions {
        kind,
        label: slot.plan.label.clone(),
        uuid: slot.uuid.into_bytes(),
        hash_seed: slot.hash_seed.into_bytes(),
        time,
        ..ExtOptions::default()
    }
}

/// Creates the filesystem on a volume.
pub(crate) fn format(
    slot: &FilesystemSlot,
    key: &str,
    volume: &Volume,
    details: FormatDetails,
    tool: Option<FormatByTool<'_>>,
) -> Result<()> {
    let new = match slot.plan.kind {
        FilesystemKind::Ext4 => ext(slot, ExtKind::Ext4, details),
        FilesystemKind::Ext3 => ext(slot, ExtKind::Ext3, details),
        FilesystemKind::Ext2 => ext(slot, ExtKind::Ext2, details),
        FilesystemKind::Fat => NewFilesystem::Fat(FatOptions {
            label: slot.plan.label.clone(),
            volume_id: slot.serial(),
            sector_bytes: details.sector_bytes,
            time: details.is_time_fixed.then_some(details.time),
            ..FatOptions::default()
        }),
        FilesystemKind::Exfat => NewFilesystem::Exfat(ExfatOptions {
            label: slot.plan.label.clone(),
            volume_id: slot.serial(),
            sector_bytes: details.sector_bytes,
            ..ExfatOptions::default()
        }),
        FilesystemKind::Swap => NewFilesystem::Swap(SwapOptions {
            label: slot.plan.label.clone(),
            uuid: slot.uuid.into_bytes(),
            page_bytes: 4096,
        }),
        FilesystemKind::Xfs | FilesystemKind::Btrfs => {
            let kind = slot.plan.kind.name();
            let Some(tool) = tool else {
                let reason = format!("creating {kind} requires a microVM");
                let error = diskfs_disk::Error::new(diskfs_disk::ErrorKind::Unsupported, reason);
                return Err(at(key, error));
            };
            let new = ToolFilesystem {
                kind,
                label: slot.plan.label.clone(),
                uuid: slot.uuid.to_string(),
            };
            return tool(&new, volume).map_err(|error| at(key, error));
        }
    };
    let made = volume.format(&new, Existing::Keep);
    made.map(drop).map_err(|error| at(key, error))
}

fn ext(slot: &FilesystemSlot, kind: ExtKind, details: FormatDetails) -> NewFilesystem {
    NewFilesystem::Ext(Box::new(ExtOptions {
        inodes: details.inodes,
        ..ext_options(slot, kind, details.time)
    }))
}
