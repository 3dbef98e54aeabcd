//! The steps that grow the layers around a volume, and its filesystem.

use std::collections::HashMap;
use std::ops::ControlFlow;

use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::PvEntry;
use diskfs_volume::{Partition, PartitionTable, TableKind};

use super::filesystem::{self, ResizeTool};
use super::layers::{self, Layer};
use super::plan::Depth;
use super::report::{ResizeLayer, ResizeProgress, ResizeStep};
use super::{Disk, ResizeRequest};
use crate::{Error, ErrorKind, Result};

/// The space between partitions that alignment leaves, not worth a remark.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// The growth of a volume, of what is around it, and of its filesystem.
pub(super) struct Growth<'a> {
    pub(super) request: &'a ResizeRequest,
    pub(super) tool: Option<&'a dyn ResizeTool>,
    pub(super) depth: Depth,
    pub(super) progress: &'a mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
}

/// The sizes of the volumes before the first step, by name.
type Sizes = HashMap<String, u64>;

impl Growth<'_> {
    /// Carries out the steps on `disk`, and adds them to `steps`.
    pub(super) fn run(mut self, disk: &mut Disk, steps: &mut Vec<ResizeStep>) -> Result<()> {
        let (layers, sizes) = self.layers(disk)?;
        for layer in &layers {
            let done = self.grow(disk, layer, &sizes)?;
            self.report(done.layer, 0)?;
            steps.push(done);
        }
        let volume = self.request.volume.find(disk)?;
        let report = &mut *self.progress;
        let mut progress = |bytes| {
            let layer = ResizeLayer::Filesystem;
            report(ResizeProgress { layer, bytes })
        };
        let content = filesystem::grow(&volume, self.tool, self.depth, &mut progress)?;
        steps.extend(content);
        Ok(())
    }

    /// Returns the layers around the volume, and the sizes of the volumes.
    fn layers(&self, disk: &Disk) -> Result<(Vec<Layer>, Sizes)> {
        let volume = self.request.volume.find(disk)?;
        filesystem::check_content(&volume, self.tool)?;
        let layers = layers::around(disk, &volume);
        let mut sizes = Sizes::new();
        for layer in &layers {
            let name = layer.volume();
            sizes.insert(name.to_owned(), disk.volume(name)?.size_bytes());
        }
        Ok((layers, sizes))
    }

    fn report(&mut self, layer: ResizeLayer, bytes: u64) -> Result<()> {
        let flow = (self.progress)(ResizeProgress { layer, bytes });
        Ok(diskfs_block::check_cancelled(flow)?)
    }

    fn grow(&self, disk: &mut Disk, layer: &Layer, sizes: &Sizes) -> Result<ResizeStep> {
        let old_bytes = sizes.get(layer.volume()).copied().unwrap_or_default();
        match layer {
            Layer::Partition { number, name } => grow_partition(disk, *number, name),
            Layer::Fixed { name, reason } => {
                let step = ResizeStep::new(ResizeLayer::Array, name, (old_bytes, old_bytes));
                Ok(step.with_note(reason.clone()))
            }
            Layer::Luks { name } => {
                let sizes = (old_bytes, disk.volume(name)?.size_bytes());
                let step = ResizeStep::new(ResizeLayer::Luks, name, sizes);
                Ok(step.with_note("follows its volume, nothing is written"))
            }
            Layer::PhysicalVolume { group, member } => grow_physical_volume(disk, group, member),
            Layer::LogicalVolume {
                group,
                logical,
                name,
            } => self.extend(disk, (group, logical, name), old_bytes),
        }
    }

    /// Extends a logical volume.
    fn extend(
        &self,
        disk: &mut Disk,
        (group, logical, name): (&str, &str, &str),
        old_bytes: u64,
    ) -> Result<ResizeStep> {
        let wanted = self.request.logical_size;
        let step =
            |new_bytes| ResizeStep::new(ResizeLayer::LogicalVolume, name, (old_bytes, new_bytes));
        let is_full = disk.volume_group_editor(group)?.free_bytes() == 0;
        if wanted.is_none() && is_full {
            return Ok(step(old_bytes));
        }
        let size = wanted.unwrap_or(NewSize::Largest);
        let extended = disk.edit_volume_group(group, |editor| editor.extend(logical, size));
        match extended {
            Ok((new_bytes, _)) => Ok(step(new_bytes)),
            // A filesystem can still grow to a volume that can't.
            Err(error) if wanted.is_none() && error.kind() == ErrorKind::Unsupported => {
                Ok(step(old_bytes).with_note(error.reason()))
            }
            Err(error) => Err(error),
        }
    }
}

fn grow_physical_volume(disk: &mut Disk, group: &str, member: &str) -> Result<ResizeStep> {
    let found = disk.group(group)?;
    let Some(id) = found.physical_volume_on(member) else {
        let reason = format!("volume group {group} has no physical volume on {member}");
        return Err(disk.in_image(Error::new(ErrorKind::Corrupt, reason)));
    };
    let metadata = found.metadata();
    let extent_bytes = metadata.extent_bytes;
    let entry = metadata
        .physical_volumes
        .iter()
        .find(|entry| entry.id == id);
    let extents = entry.map_or(0, PvEntry::extent_count);
    let old_bytes = extents.saturating_mul(extent_bytes);
    let edited = disk.edit_volume_group(group, |editor| editor.grow_physical_volume(&id));
    let added = edited?.0;
    let sizes = (old_bytes, old_bytes.saturating_add(added));
    Ok(ResizeStep::new(ResizeLayer::PhysicalVolume, member, sizes))
}

fn grow_partition(disk: &mut Disk, number: u32, name: &str) -> Result<ResizeStep> {
    let table = disk.partition_table()?;
    let old = find(table, number).cloned();
    let (Some(table), Some(old)) = (table, old) else {
        let reason = format!("no partition {number}");
        return Err(disk.in_image(Error::new(ErrorKind::NotFound, reason)));
    };
    let step =
        |new_bytes| ResizeStep::new(ResizeLayer::Partition, name, (old.len_bytes, new_bytes));
    if !matches!(
        table.kind,
        TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
    ) {
        let note = format!(
            "partition tables of the kind {} are not changed",
            table.kind
        );
        return Ok(step(old.len_bytes).with_note(note));
    }
    let obstacle = obstacle(table, &old);
    let new_bytes =
        disk.edit_and_repair_partitions(|editor| editor.grow(number, NewSize::Largest))?;
    let done = step(new_bytes);
    Ok(match obstacle {
        Some(note) if !done.is_changed() => done.with_note(note),
        _ => done,
    })
}

fn find(table: Option<&PartitionTable>, number: u32) -> Option<&Partition> {
    let mut partitions = table?.partitions.iter();
    partitions.find(|partition| partition.number == number)
}

/// Describes the partition that begins where this one ends, with the next step.
fn obstacle(table: &PartitionTable, partition: &Partition) -> Option<String> {
    let end = partition.start_bytes.saturating_add(partition.len_bytes);
    let others = table.partitions.iter().filter(|other| !other.is_extended());
    let following = others.filter(|other| other.start_bytes >= end);
    let next = following.min_by_key(|other| other.start_bytes)?;
    let gap = next.start_bytes.saturating_sub(end);
    (gap <= ALIGNMENT_BYTES).then(|| {
        format!(
            "partition p{0} follows it; select p{0} with --volume, or delete it to make room",
            next.number
        )
    })
}
