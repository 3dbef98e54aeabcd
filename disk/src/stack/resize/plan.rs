//! The plan of a resize: its steps, carried out in memory.

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::Overlay;
use diskfs_volume::TableKind;

use super::extended::Extended;
use super::filesystem::ResizeTool;
use super::grow::Growth;
use super::report::{ResizeLayer, ResizeReport, ResizeStep, image_step};
use super::{Disk, OpenedImage, ResizeRequest};
use crate::{Error, ErrorKind, Result};

/// The limit on the changes of a plan, which are in memory.
const PLAN_MAX_BYTES: u64 = 1 << 30;

/// The extent to which the steps are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// On the disk.
    OnDisk,
    /// In memory, completely.
    Full,
    /// In memory, and the filesystem only until its first change: whether it can be resized.
    Checks,
}

/// The result of carrying out the steps in memory.
pub(super) struct Plan {
    pub(super) report: ResizeReport,
}

impl Plan {
    /// Carries out the steps in memory, for a disk that will have `new_bytes`.
    ///
    /// # Errors
    /// Those of the steps; `NoSpace` if nothing can use the new space.
    pub(super) fn make(
        disk: &Disk,
        new_bytes: u64,
        request: &ResizeRequest,
        tool: Option<&dyn ResizeTool>,
        depth: Depth,
    ) -> Result<Self> {
        if !matches!(
            disk.image,
            OpenedImage::Writable(_) | OpenedImage::DryRun(..)
        ) {
            let reason = "the disk is open read-only";
            return Err(disk.in_image(Error::new(ErrorKind::ReadOnly, reason)));
        }
        let image = image_step(disk, new_bytes);
        let grows = image.is_changed();
        let mut planned = disk.in_memory(new_bytes);
        if grows {
            refuse_large_mbr(&planned, new_bytes)?;
        }
        let mut steps = vec![image];
        Growth {
            request,
            tool,
            depth,
            progress: &mut |_| ControlFlow::Continue(()),
        }
        .run(&mut planned, &mut steps)?;
        if grows {
            refuse_in_vain(&planned, &steps)?;
        }
        let report = ResizeReport::new(&planned, request, steps)?;
        Ok(Self { report })
    }
}

/// Fails for a disk of which an MBR can't use the end.
fn refuse_large_mbr(disk: &Disk, new_bytes: u64) -> Result<()> {
    let Some(table) = disk.partition_table()? else {
        return Ok(());
    };
    let max_bytes = u64::from(table.sector_size) << 32;
    if table.kind != TableKind::Mbr || new_bytes <= max_bytes {
        return Ok(());
    }
    let reason = format!(
        "an MBR addresses only {max_bytes} bytes of a disk, less than the new size {new_bytes}"
    );
    let hint = "choose a smaller size, or convert the table to a GPT with `sgdisk -g`";
    Err(disk.in_image(Error::new(ErrorKind::Invalid, reason).with_hint(hint)))
}

/// Fails if the new space of the image would be used by nothing.
fn refuse_in_vain(disk: &Disk, steps: &[ResizeStep]) -> Result<()> {
    let is_outer =
        |step: &&ResizeStep| matches!(step.layer, ResizeLayer::Partition | ResizeLayer::Array);
    let mut outer = steps.iter().filter(is_outer);
    let Some(first) = outer.clone().next() else {
        return Ok(());
    };
    if outer.any(ResizeStep::is_changed) {
        return Ok(());
    }
    let why = first.note.as_deref().unwrap_or("it has its largest size");
    let reason = format!("{} cannot use the new space of the disk: {why}", first.name);
    Err(disk.in_image(Error::new(ErrorKind::NoSpace, reason)))
}

impl Disk {
    /// Returns the machine's disks with all changes in memory, the first one extended to
    /// `size_bytes`.
    pub(super) fn in_memory(&self, size_bytes: u64) -> Self {
        let mut first = self.copy_in_memory(size_bytes);
        let others = self.other_disks.iter();
        first.other_disks = others.map(|disk| disk.copy_in_memory(0)).collect();
        first
    }

    fn copy_in_memory(&self, size_bytes: u64) -> Self {
        let base = Arc::new(Extended::new(self.device(), size_bytes));
        let overlay = Arc::new(Overlay::in_memory(base, PLAN_MAX_BYTES));
        let description = Box::new(self.description().clone());
        let image = OpenedImage::InMemory(description, overlay);
        Self::new(image, self.path.clone(), self.settings.clone())
    }
}
