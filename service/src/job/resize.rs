//! The job of `ResizeFs`: grows what is on an image to the image's size.

use std::path::Path;
use std::sync::Arc;

use diskfs_disk::{Content, ContentClass, Disk, ResizeTool, ResizeVolume, Result, ToolUse, Volume};
use diskfs_vm::tools::{FilesystemTools, Work};
use diskfs_volume::TableKind;
use diskfs_volume::edit::NewSize;
use serde::{Deserialize, Serialize};

use super::{Access, JobContext, Phase, Source, enter, written};

/// Grows the last partition of an image with what is in it (the physical and the logical volume,
/// the filesystem), or the filesystem of an image without partitions. Nothing to grow is a success.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resize {
    /// The image.
    pub disk: Source,
}

impl Resize {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<()> {
        // The disk of a container: what is on it is mounted and grown by the host.
        if self.disk.path.starts_with(Path::new("/dev")) && is_loop(&self.disk.path) {
            return Ok(());
        }
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Write)?;
        enter(context, Phase::Prepare)?;
        let growth = Growth::of(&disk)?;
        enter(context, Phase::Write)?;
        growth.carry_out(disk, context)
    }
}

fn is_loop(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("loop"))
}

/// The part of a disk that grows.
enum Growth {
    /// No part.
    Nothing,
    /// The partition with this number, without what it contains.
    Partition(u32),
    /// The volume with this name, with everything around it.
    Volume(String),
}

impl Growth {
    fn of(disk: &Disk) -> Result<Self> {
        let Some(number) = last_partition(disk)? else {
            let Ok(volume) = disk.default_volume() else {
                return Ok(Self::Nothing);
            };
            return Ok(match volume.content()? {
                Some(content) if can_grow(content) => Self::Volume(logical(disk, &volume)),
                _ => Self::Nothing,
            });
        };
        let volume = disk.volume(&format!("p{number}"))?;
        Ok(match volume.content()? {
            // Windows grows it together with its partition: its own programs for that need the free
            // space to be behind the partition.
            Some(content) if content.kind == "ntfs" => Self::Nothing,
            Some(content) if can_grow(content) => Self::Volume(logical(disk, &volume)),
            _ => Self::Partition(number),
        })
    }

    fn carry_out(self, mut disk: Disk, context: &mut dyn JobContext) -> Result<()> {
        match self {
            Self::Nothing => {}
            Self::Partition(number) => {
                disk.edit_partitions(None, |editor| editor.grow(number, NewSize::Largest))?;
            }
            Self::Volume(name) => {
                let tool = context.tools().map(Tool);
                let tool = tool.as_ref().map(|tool| tool as &dyn ResizeTool);
                let mut progress = written(context);
                let volume = ResizeVolume::Named(name);
                let grown = disk.grow(volume, tool, &mut |now| progress(now.bytes, 0));
                return grown.map(|_| ());
            }
        }
        disk.close()
    }
}

/// Returns the number of the last partition of a table that can be edited.
fn last_partition(disk: &Disk) -> Result<Option<u32>> {
    let table = disk.partition_table()?.filter(|table| {
        matches!(
            table.kind,
            TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
        )
    });
    let partitions = table.map_or(&[][..], |table| &table.partitions);
    let valid = partitions.iter().filter(|it| it.problem.is_none());
    Ok(valid.max_by_key(|it| it.start_bytes).map(|it| it.number))
}

/// Returns true for contents that grow, here or by their program.
fn can_grow(content: &Content) -> bool {
    matches!(content.class, ContentClass::Filesystem | ContentClass::Swap)
        || matches!(content.kind, "LVM2_member" | "crypto_LUKS")
}

/// Returns the name of the volume to grow inside of a physical volume: the logical volume with the
/// system, or the only one. Otherwise only the physical volume grows.
fn logical(disk: &Disk, volume: &Volume) -> String {
    let is_physical = |volume: &Volume| {
        let content = volume.content().ok().flatten();
        content.is_some_and(|content| content.kind == "LVM2_member")
    };
    let unlocked = disk.volume(&format!("{}/luks", volume.name())).ok();
    if !is_physical(volume) && !unlocked.as_ref().is_some_and(is_physical) {
        return volume.name().to_owned();
    }
    let system = disk.default_volume().ok();
    if let Some(system) = system.filter(|it| it.logical().is_some()) {
        return system.name().to_owned();
    }
    let volumes = disk.volumes().unwrap_or_default();
    let mut logical = volumes.iter().filter(|it| it.logical().is_some());
    match (logical.next(), logical.next()) {
        (Some(only), None) => only.name().to_owned(),
        _ => volume.name().to_owned(),
    }
}

/// The programs of filesystems that diskfs does not grow itself.
struct Tool(Arc<dyn FilesystemTools>);

impl ResizeTool for Tool {
    fn use_for(&self, kind: &str) -> ToolUse {
        match kind {
            "xfs" | "btrfs" | "f2fs" => ToolUse::Fallback,
            _ => ToolUse::Never,
        }
    }

    fn check(&self, _: &str) -> Result<()> {
        self.0.check()
    }

    fn grow(&self, volume: &Volume) -> Result<()> {
        let content = volume.content()?;
        let kind = content.map_or("", |content| content.kind);
        self.0.work(kind, volume.writable_device()?, &Work::Grow)
    }
}
