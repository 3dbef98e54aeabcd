//! The job of `FormatFs`: makes a partition table, one partition and a filesystem.

use diskfs_disk::{
    Disk, Error, ErrorKind, ExfatOptions, ExtKind, ExtOptions, FatOptions, NewFilesystem, Result,
    SwapOptions,
};
use diskfs_image::create::Existing;
use diskfs_vfs::Timestamp;
use diskfs_vm::tools::{FilesystemTools, NewByTool, Work};
use diskfs_volume::Guid;
use diskfs_volume::edit::{NewPartition, NewTable, PartitionType};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Access, JobContext, Phase, Source, enter};
use crate::key::random_bytes;

/// Replaces the contents of an image by a GPT with one partition and an empty filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Format {
    /// The image.
    pub disk: Source,
    /// The filesystem.
    pub kind: FormatKind,
    /// The UUID of the filesystem; `None` for a random one. FAT and exFAT get a serial number from
    /// its first digits.
    pub uuid: Option<[u8; 16]>,
    /// Creates directories whose names may ignore case.
    pub casefold: bool,
    /// The percentage of blocks that are reserved for root (ext) or for the filesystem's own use
    /// (F2FS); `None` for the default.
    pub reserved_percent: Option<u8>,
}

/// A filesystem that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FormatKind {
    /// ext2.
    Ext2,
    /// ext3.
    Ext3,
    /// ext4.
    Ext4,
    /// Linux swap space.
    Swap,
    /// FAT12, FAT16 or FAT32, by size.
    Fat,
    /// exFAT.
    Exfat,
    /// XFS, with its own program in a microVM.
    Xfs,
    /// btrfs, with its own program in a microVM.
    Btrfs,
    /// F2FS, with its own program in a microVM.
    F2fs,
}

impl FormatKind {
    /// Returns the kind with a name, as the host-deployer's callers give it.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ext2" => Self::Ext2,
            "ext3" => Self::Ext3,
            "ext4" => Self::Ext4,
            "swap" => Self::Swap,
            "fat" | "vfat" | "fat32" => Self::Fat,
            "exfat" => Self::Exfat,
            "xfs" => Self::Xfs,
            "btrfs" => Self::Btrfs,
            "f2fs" => Self::F2fs,
            _ => return None,
        })
    }

    fn partition_type(self) -> Result<PartitionType> {
        let name = match self {
            Self::Swap => "swap",
            Self::Fat | Self::Exfat => "msdata",
            _ => return Ok(PartitionType::LINUX),
        };
        Ok(name.parse()?)
    }
}

impl Format {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<()> {
        // Options are checked before the first write.
        let uuid = match self.uuid {
            Some(uuid) => uuid,
            None => uuid::Builder::from_random_bytes(random_bytes()?)
                .into_uuid()
                .into_bytes(),
        };
        let new = self.native(uuid)?;
        let tools = context.tools();
        if new.is_none() {
            self.check_tools(tools.as_deref())?;
        }
        enter(context, Phase::Open)?;
        let mut disk = context.open(&self.disk, Access::Write)?;
        enter(context, Phase::Write)?;
        self.add_partition(&mut disk)?;
        let volume = disk.volume("p1")?;
        match (new, tools) {
            (Some(new), _) => {
                volume.format(&new, Existing::Replace)?;
            }
            (None, Some(tools)) => {
                volume.check_replaceable(Existing::Replace)?;
                self.make_by(&*tools, uuid, &volume)?;
            }
            (None, None) => {}
        }
        drop(volume);
        disk.close()
    }

    fn check_tools(&self, tools: Option<&dyn FilesystemTools>) -> Result<()> {
        if let Some(tools) = tools {
            return tools.check();
        }
        let reason = format!("making {} is not supported without a microVM", self.name());
        let hint = "`diskfs appliance` describes how to make one possible";
        Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint))
    }

    fn name(&self) -> &'static str {
        match self.kind {
            FormatKind::Xfs => "xfs",
            FormatKind::Btrfs => "btrfs",
            FormatKind::F2fs => "f2fs",
            _ => "this filesystem",
        }
    }

    fn add_partition(&self, disk: &mut Disk) -> Result<()> {
        let guid = || Ok::<_, Error>(Guid::from_u128(u128::from_be_bytes(random_bytes()?)));
        let table = NewTable::Gpt { guid: guid()? };
        disk.create_partition_table(table, Existing::Replace, None)?;
        let partition = NewPartition {
            number: Some(1),
            start_bytes: None,
            size_bytes: None,
            partition_type: self.kind.partition_type()?,
            name: String::new(),
            guid: guid()?,
            flags: Vec::new(),
            role: None,
        };
        disk.edit_partitions(None, |editor| editor.add(&partition))?;
        Ok(())
    }

    /// Returns the filesystem if diskfs makes it itself.
    fn native(&self, uuid: [u8; 16]) -> Result<Option<NewFilesystem>> {
        let [a, b, c, d, ..] = uuid;
        let serial = u32::from_be_bytes([a, b, c, d]);
        Ok(Some(match self.kind {
            FormatKind::Ext2 => self.ext(ExtKind::Ext2, uuid)?,
            FormatKind::Ext3 => self.ext(ExtKind::Ext3, uuid)?,
            FormatKind::Ext4 => self.ext(ExtKind::Ext4, uuid)?,
            FormatKind::Swap => NewFilesystem::Swap(SwapOptions {
                uuid,
                ..SwapOptions::default()
            }),
            FormatKind::Fat => NewFilesystem::Fat(FatOptions {
                volume_id: serial,
                ..FatOptions::default()
            }),
            FormatKind::Exfat => NewFilesystem::Exfat(ExfatOptions {
                volume_id: serial,
                ..ExfatOptions::default()
            }),
            FormatKind::Xfs | FormatKind::Btrfs | FormatKind::F2fs => return Ok(None),
        }))
    }

    fn ext(&self, kind: ExtKind, uuid: [u8; 16]) -> Result<NewFilesystem> {
        let mut options = ExtOptions {
            uuid,
            hash_seed: uuid::Builder::from_random_bytes(random_bytes()?)
                .into_uuid()
                .into_bytes(),
            time: Timestamp::now(),
            kind,
            ..ExtOptions::default()
        };
        if let Some(percent) = self.reserved_percent {
            options.reserved_ppm = u32::from(percent) * 10_000;
        }
        if self.casefold {
            options.parse_features("casefold")?;
            options.extended.strict_encoding = true;
        }
        Ok(NewFilesystem::Ext(Box::new(options)))
    }

    fn make_by(
        &self,
        tools: &dyn FilesystemTools,
        uuid: [u8; 16],
        volume: &diskfs_disk::Volume,
    ) -> Result<()> {
        let uuid = Uuid::from_bytes(uuid).to_string();
        let mut new = NewByTool::default();
        if self.kind == FormatKind::F2fs {
            new.options.extend(["-U".to_owned(), uuid]);
            if self.casefold {
                let options = ["-O", "casefold", "-C", "utf8"];
                new.options.extend(options.map(str::to_owned));
            }
            if let Some(percent) = self.reserved_percent {
                new.options.extend(["-o".to_owned(), percent.to_string()]);
            }
        } else {
            new.uuid = Some(uuid);
        }
        tools.work(self.name(), volume.writable_device()?, &Work::Make(new))
    }
}
