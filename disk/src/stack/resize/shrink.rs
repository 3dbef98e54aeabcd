//! The steps that shrink a disk: filesystem, logical volume, physical volume, partition, image.

use std::ops::ControlFlow;

use diskfs_block::check_cancelled;
use diskfs_volume::lvm::LvmId;
use diskfs_volume::{Partition, PartitionTable, TableKind};

use super::layers::{self, Layer};
use super::plan::Depth;
use super::report::{ResizeLayer, ResizeProgress, ResizeStep};
use super::{Disk, ResizeRequest, Volume};
use crate::{Error, ErrorKind, Result};

/// The alignment of the sizes that are chosen: that of partitions, and of LVM's data.
const ALIGNMENT_BYTES: u64 = 1 << 20;
/// The unit of the sizes of filesystems.
const BLOCK_BYTES: u64 = 4096;

/// The target of a shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShrinkTo {
    /// The disk gets the size of the request.
    Size,
    /// The disk gets the smallest size.
    Minimum,
}

/// The sizes that the layers get, from the inside to the outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShrinkPlan {
    /// The layers, from the inside to the outside.
    layers: Vec<(Layer, u64)>,
    filesystem_bytes: u64,
    pub(super) disk_bytes: u64,
}

impl ShrinkPlan {
    /// Computes the sizes.
    ///
    /// # Errors
    /// `NoSpace` if the contents need more than the requested size, with the smallest size;
    /// `Unsupported` for layers that can't be shrunk; `Invalid` for a size above the present one.
    pub(super) fn make(disk: &Disk, request: &ResizeRequest, new_bytes: u64) -> Result<Self> {
        let volume = request.volume.find(disk)?;
        let layers = layers::around(disk, &volume);
        refuse_layers(&volume, &layers)?;
        let minimum = volume.shrunk_minimum()?;
        let smallest = Self::around(disk, &layers, minimum)?;
        let old_bytes = disk.device().size_bytes();
        if request.shrink == Some(ShrinkTo::Minimum) {
            let mut plan = smallest;
            plan.disk_bytes = plan.disk_bytes.min(old_bytes);
            return Ok(plan);
        }
        if new_bytes < smallest.disk_bytes {
            let reason = format!(
                "the disk needs at least {} bytes, more than the new size {new_bytes}",
                smallest.disk_bytes
            );
            let error = Error::new(ErrorKind::NoSpace, reason);
            let hint = "use --shrink-to-minimum, or delete files first";
            return Err(disk.in_image(error.with_hint(hint)));
        }
        let spare = new_bytes.saturating_sub(smallest.disk_bytes);
        let present = volume.size_bytes();
        // All layers have fixed overheads, so what the disk has beyond its minimum is the
        // filesystem's. Rounding can take a little of it.
        let wanted = minimum.saturating_add(spare).min(present);
        let mut plan = Self::around(disk, &layers, wanted)?;
        if plan.disk_bytes > new_bytes {
            let less = plan.disk_bytes.saturating_sub(new_bytes);
            let less = less.next_multiple_of(ALIGNMENT_BYTES);
            plan = Self::around(disk, &layers, wanted.saturating_sub(less).max(minimum))?;
        }
        plan.disk_bytes = new_bytes;
        Ok(plan)
    }

    /// Computes the sizes around a filesystem of `filesystem_bytes`.
    fn around(disk: &Disk, layers: &[Layer], filesystem_bytes: u64) -> Result<Self> {
        let filesystem_bytes = filesystem_bytes.next_multiple_of(BLOCK_BYTES);
        let mut plan = Self {
            filesystem_bytes,
            ..Self::default()
        };
        let mut bytes = filesystem_bytes;
        let mut logical: Option<(String, u64)> = None;
        for layer in layers.iter().rev() {
            bytes = match layer {
                Layer::Partition { number, .. } => {
                    let table = disk.partition_table()?;
                    partition_bytes(disk, table, *number, bytes)?
                }
                Layer::Fixed { .. } => bytes,
                Layer::Luks { name } => bytes.saturating_add(luks_overhead(disk, name)?),
                Layer::LogicalVolume {
                    group,
                    logical: name,
                    ..
                } => {
                    logical = Some((name.clone(), bytes));
                    let extent_bytes = disk.group(group)?.metadata().extent_bytes.max(1);
                    bytes.div_ceil(extent_bytes).saturating_mul(extent_bytes)
                }
                Layer::PhysicalVolume { group, member } => {
                    physical_bytes(disk, group, member, logical.as_ref())?
                }
            };
            plan.layers.push((layer.clone(), bytes));
        }
        plan.disk_bytes = match layers.first() {
            Some(Layer::Partition { number, .. }) => {
                let table = disk.partition_table()?;
                disk_bytes(disk, table, *number, bytes)?
            }
            _ => bytes.next_multiple_of(512),
        };
        Ok(plan)
    }

    /// Carries out the steps inside of the image, and adds them to `steps`.
    pub(super) fn run(
        &self,
        disk: &mut Disk,
        request: &ResizeRequest,
        depth: Depth,
        steps: &mut Vec<ResizeStep>,
        progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let volume = request.volume.find(disk)?;
        steps.extend(self.shrink_filesystem(&volume, depth, progress)?);
        drop(volume);
        for (layer, bytes) in &self.layers {
            let step = shrink_layer(disk, layer, *bytes)?;
            let layer = step.layer;
            check_cancelled(progress(ResizeProgress { layer, bytes: 0 }))?;
            steps.push(step);
        }
        disk.move_backup_before(self.disk_bytes)
    }

    fn shrink_filesystem(
        &self,
        volume: &Volume,
        depth: Depth,
        progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<Option<ResizeStep>> {
        let Some(content) = volume.content()? else {
            return Ok(None);
        };
        if content.kind == LVM {
            return Ok(None);
        }
        let layer = ResizeLayer::Filesystem;
        let old_bytes = volume.filesystem_bytes()?.unwrap_or(volume.size_bytes());
        let new_bytes = self.filesystem_bytes.min(old_bytes);
        let step = |sizes| ResizeStep::new(layer, volume.name(), sizes).of_kind(content.kind);
        // Moving files in memory could need as much memory as the files.
        if depth != Depth::OnDisk || new_bytes == old_bytes {
            return Ok(Some(step((old_bytes, new_bytes))));
        }
        let shrunk = volume.shrink_filesystem(new_bytes, &mut |bytes| {
            progress(ResizeProgress { layer, bytes })
        })?;
        Ok(Some(step((shrunk.old_bytes, shrunk.new_bytes))))
    }
}

/// The content of a physical volume.
const LVM: &str = "LVM2_member";

/// Fails for layers that can't be shrunk.
fn refuse_layers(volume: &Volume, layers: &[Layer]) -> Result<()> {
    let unsupported =
        |reason: String| Err(volume.in_image(Error::new(ErrorKind::Unsupported, reason)));
    let groups = layers
        .iter()
        .filter(|layer| matches!(layer, Layer::PhysicalVolume { .. }));
    let logical = layers
        .iter()
        .filter(|layer| matches!(layer, Layer::LogicalVolume { .. }));
    if groups.count() > logical.count().max(1) {
        let reason = "cannot shrink a volume group with several physical volumes";
        return unsupported(reason.to_owned());
    }
    for layer in layers {
        if let Layer::Fixed { name, reason } = layer {
            return unsupported(format!("cannot shrink {name}: {reason}"));
        }
    }
    Ok(())
}

/// Returns the difference between the sizes of an encrypted volume and its inside.
fn luks_overhead(disk: &Disk, name: &str) -> Result<u64> {
    let inside = disk.volume(name)?;
    let outer = disk.volume(name.strip_suffix("/luks").unwrap_or(name))?;
    Ok(outer.size_bytes().saturating_sub(inside.size_bytes()))
}

fn physical_id(disk: &Disk, group: &str, member: &str) -> Result<LvmId> {
    disk.group(group)?
        .physical_volume_on(member)
        .ok_or_else(|| {
            let reason = format!("volume group {group} has no physical volume on {member}");
            disk.in_image(Error::new(ErrorKind::Corrupt, reason))
        })
}

/// Returns the size of the device of a physical volume after its logical volume has been reduced.
fn physical_bytes(
    disk: &Disk,
    group: &str,
    member: &str,
    logical: Option<&(String, u64)>,
) -> Result<u64> {
    let id = physical_id(disk, group, member)?;
    let mut editor = disk.volume_group_editor(group)?;
    let least = || {
        if let Some((name, bytes)) = logical {
            editor.reduce(name, *bytes)?;
        }
        editor.least_device_bytes(&id)
    };
    let mut least = least;
    least().map_err(|e: diskfs_block::Error| disk.in_image(e))
}

/// Returns the size of a partition that holds `bytes`.
fn partition_bytes(
    disk: &Disk,
    table: Option<&PartitionTable>,
    number: u32,
    bytes: u64,
) -> Result<u64> {
    let Some(partition) = find(table, number) else {
        return Err(no_partition(disk, number));
    };
    let aligned = partition
        .start_bytes
        .saturating_add(bytes)
        .next_multiple_of(ALIGNMENT_BYTES)
        .saturating_sub(partition.start_bytes);
    Ok(aligned.min(partition.len_bytes))
}

fn find(table: Option<&PartitionTable>, number: u32) -> Option<&Partition> {
    let mut partitions = table?.partitions.iter();
    partitions.find(|partition| partition.number == number)
}

fn no_partition(disk: &Disk, number: u32) -> Error {
    disk.in_image(Error::new(
        ErrorKind::NotFound,
        format!("no partition {number}"),
    ))
}

/// Returns the smallest size of the disk if a partition gets `len_bytes`: up to the end of the last
/// partition, and the backup of a GPT.
///
/// # Errors
/// `Unsupported` if the table can't be changed.
fn disk_bytes(
    disk: &Disk,
    table: Option<&PartitionTable>,
    number: u32,
    len_bytes: u64,
) -> Result<u64> {
    let Some(table) = table else {
        return Err(no_partition(disk, number));
    };
    let backup_bytes = match table.kind {
        // At most 16 KiB of entries after alignment, and the header.
        TableKind::Gpt | TableKind::HybridMbr => {
            u64::from(table.sector_size).saturating_add(16 << 10)
        }
        TableKind::Mbr => 0,
        kind => {
            let reason = format!("cannot shrink a disk with a partition table of the kind {kind}");
            return Err(disk.in_image(Error::new(ErrorKind::Unsupported, reason)));
        }
    };
    let ends = table
        .partitions
        .iter()
        .filter(|p| !p.is_extended())
        .map(|p| {
            let len_bytes = if p.number == number {
                len_bytes
            } else {
                p.len_bytes
            };
            p.start_bytes.saturating_add(len_bytes)
        });
    let end = ends.max().unwrap_or_default();
    let sector = u64::from(table.sector_size);
    Ok(end.saturating_add(backup_bytes).next_multiple_of(sector))
}

fn shrink_layer(disk: &mut Disk, layer: &Layer, bytes: u64) -> Result<ResizeStep> {
    match layer {
        Layer::Partition { number, name } => shrink_partition(disk, *number, name, bytes),
        Layer::Fixed { name, .. } => Ok(ResizeStep::new(ResizeLayer::Array, name, (bytes, bytes))),
        Layer::Luks { name } => {
            let overhead = luks_overhead(disk, name)?;
            let sizes = (
                disk.volume(name)?.size_bytes(),
                bytes.saturating_sub(overhead),
            );
            let step = ResizeStep::new(ResizeLayer::Luks, name, sizes);
            Ok(step.with_note("follows its volume, nothing is written"))
        }
        Layer::LogicalVolume {
            group,
            logical,
            name,
        } => {
            let old_bytes = disk.volume(name)?.size_bytes();
            let reduced = disk.edit_volume_group(group, |editor| editor.reduce(logical, bytes))?;
            let sizes = (old_bytes, reduced.0);
            Ok(ResizeStep::new(ResizeLayer::LogicalVolume, name, sizes))
        }
        Layer::PhysicalVolume { group, member } => {
            let id = physical_id(disk, group, member)?;
            let old_bytes = disk.volume(member)?.size_bytes();
            let new_bytes = bytes.min(old_bytes);
            disk.edit_volume_group(group, |editor| {
                editor.shrink_physical_volume(&id, new_bytes)
            })?;
            let sizes = (old_bytes, new_bytes);
            Ok(ResizeStep::new(ResizeLayer::PhysicalVolume, member, sizes))
        }
    }
}

fn shrink_partition(disk: &mut Disk, number: u32, name: &str, bytes: u64) -> Result<ResizeStep> {
    let table = disk.partition_table()?;
    let Some(partition) = find(table, number) else {
        return Err(no_partition(disk, number));
    };
    let old_bytes = partition.len_bytes;
    let start_bytes = partition.start_bytes;
    let extended = table
        .and_then(|table| around_last(table, partition))
        .cloned();
    let wanted = bytes.min(old_bytes);
    let new_bytes = disk.edit_and_repair_partitions(|editor| editor.shrink(number, wanted))?;
    if let Some(extended) = extended {
        let end = start_bytes.saturating_add(new_bytes);
        let wanted = end.saturating_sub(extended.start_bytes);
        let wanted = wanted.min(extended.len_bytes);
        disk.edit_partitions(None, |editor| editor.shrink(extended.number, wanted))?;
    }
    let sizes = (old_bytes, new_bytes);
    Ok(ResizeStep::new(ResizeLayer::Partition, name, sizes))
}

/// Returns the extended partition around a logical one, if that is the last one in it.
fn around_last<'a>(table: &'a PartitionTable, partition: &Partition) -> Option<&'a Partition> {
    if partition.is_extended() || table.kind != TableKind::Mbr {
        return None;
    }
    let mut partitions = table.partitions.iter();
    let extended = partitions.find(|other| {
        let end = other.start_bytes.saturating_add(other.len_bytes);
        other.is_extended() && (other.start_bytes..end).contains(&partition.start_bytes)
    })?;
    let end = extended.start_bytes.saturating_add(extended.len_bytes);
    let later = partition.start_bytes.saturating_add(1)..end;
    let mut others = table.partitions.iter();
    (!others.any(|other| later.contains(&other.start_bytes))).then_some(extended)
}

impl Volume {
    /// Returns the smallest size of the volume's content; for a physical volume zero, because its
    /// group decides.
    fn shrunk_minimum(&self) -> Result<u64> {
        match self.content()?.map(|content| content.kind) {
            Some(LVM) => Ok(0),
            Some(_) => self.minimum_size(),
            None => {
                let reason = format!(
                    "volume {} holds no known filesystem, which diskfs cannot shrink",
                    self.name()
                );
                Err(self.in_image(Error::new(ErrorKind::Unsupported, reason)))
            }
        }
    }
}
