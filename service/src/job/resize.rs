//! The job of `ResizeFs`: grows what is on an image to the image's size.

use std::path::Path;

use diskfs_disk::{ContentClass, Disk, ErrorKind, NewSpace, Result, Volume};
use diskfs_volume::TableKind;
use diskfs_volume::edit::NewSize;
use serde::{Deserialize, Serialize};

use super::{Access, JobContext, Phase, Source, enter, written};

/// Grows the last partition of an image and its filesystem, or the filesystem of an image without
/// partitions. Nothing to grow is a success.
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
        let mut disk = context.open(&self.disk, Access::Write)?;
        enter(context, Phase::Prepare)?;
        let name = grow_partition(&mut disk)?;
        if let Some(name) = name {
            enter(context, Phase::Write)?;
            let volume = disk.volume(&name)?;
            grow_filesystem(&disk, &volume, context)?;
        }
        disk.close()
    }
}

fn is_loop(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("loop"))
}

/// Grows the last partition, and returns the name of the volume whose filesystem must grow.
fn grow_partition(disk: &mut Disk) -> Result<Option<String>> {
    let table = disk.partition_table()?;
    let is_editable = table.is_some_and(|table| {
        matches!(
            table.kind,
            TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
        )
    });
    if !is_editable {
        let volume = disk.default_volume().ok();
        return Ok(volume.map(|volume| volume.name().to_owned()));
    }
    let partitions = table
        .map(|table| table.partitions.as_slice())
        .unwrap_or_default();
    let last = partitions
        .iter()
        .filter(|it| it.problem.is_none() && it.start_bytes < u64::MAX);
    let Some(number) = last.max_by_key(|it| it.start_bytes).map(|it| it.number) else {
        return Ok(None);
    };
    let name = format!("p{number}");
    if leaves_growth_to_guest(&disk.volume(&name)?)? {
        return Ok(None);
    }
    disk.edit_partitions(None, |editor| editor.grow(number, NewSize::Largest))?;
    Ok(Some(name))
}

/// Returns true for NTFS, which Windows grows together with its partition: its own programs for
/// that need the free space to be behind the partition.
fn leaves_growth_to_guest(volume: &Volume) -> Result<bool> {
    Ok(volume
        .content()?
        .is_some_and(|content| content.kind == "ntfs"))
}

fn grow_filesystem(disk: &Disk, volume: &Volume, context: &mut dyn JobContext) -> Result<()> {
    let Some(content) = volume.content()? else {
        return Ok(());
    };
    if content.class == ContentClass::Swap {
        return grow_swap(volume);
    }
    if content.kind == "LVM2_member" {
        return refuse_lvm(disk);
    }
    if content.class != ContentClass::Filesystem {
        return Ok(());
    }
    if matches!(content.kind, "vfat" | "exfat") {
        tracing::warn!(
            volume = volume.name(),
            kind = content.kind,
            "the filesystem cannot grow"
        );
        return Ok(());
    }
    let mut progress = written(context);
    let native = volume.grow_filesystem(NewSpace::Unknown, &mut |bytes| progress(bytes, 0));
    drop(progress);
    match native {
        Err(error) if error.kind() == ErrorKind::Unsupported && !is_ext(content.kind) => {
            match context.tools() {
                Some(tools) => tools.grow(content.kind, volume.writable_device()?),
                None => Err(error),
            }
        }
        grown => grown.map(|_| ()),
    }
}

fn is_ext(kind: &str) -> bool {
    matches!(kind, "ext2" | "ext3" | "ext4")
}

fn grow_swap(volume: &Volume) -> Result<()> {
    let device = volume.writable_device()?;
    diskfs_volume::swap::resize(&*device, None)?;
    Ok(())
}

fn refuse_lvm(disk: &Disk) -> Result<()> {
    let reason = "growing a physical volume of LVM is not supported; the partition was enlarged";
    let error = diskfs_disk::Error::new(ErrorKind::Unsupported, reason);
    Err(error.in_file(disk.path()))
}
