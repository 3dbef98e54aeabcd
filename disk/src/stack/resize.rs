//! Resizing a disk with what is on it: image, partition, encryption, volume group, filesystem.
//!
//! First all steps are carried out in memory, on the disk as it will be ([`plan`]). So a request
//! that can't be fulfilled is refused before the first write. Then the steps are carried out on the
//! disk, from the outside to the inside, each durable before the next. After a crash or an error the
//! same request completes the rest, because each step does nothing if its layer has its size.

#[cfg(test)]
mod crash_tests;
mod extended;
mod filesystem;
mod grow;
mod layers;
mod plan;
mod report;
mod shrink;

use std::ffi::OsStr;
use std::ops::ControlFlow;

use diskfs_image::{ImageSpec, ResizeOptions, Shrink};
use diskfs_volume::edit::NewSize;

use super::options::{DiskOptions, ImageSource};
use super::{Disk, OpenedImage, Volume};
use crate::{Error, ErrorKind, Result};

pub use filesystem::{ResizeTool, ToolUse};
pub use report::{ResizeLayer, ResizeProgress, ResizeReport, ResizeStep};
pub use shrink::ShrinkTo;

use grow::Growth;
use plan::{Depth, Plan};
use shrink::ShrinkPlan;

/// The unit of the sizes of disks.
const SECTOR_BYTES: u64 = 512;

/// A request to change the size of a disk, and of a volume on it.
#[derive(Debug, Clone, Default)]
pub struct ResizeRequest {
    /// The new size of the disk, rounded up to whole sectors; `None` keeps the present one.
    pub size: Option<NewSize>,
    /// The volume to resize with everything around it.
    pub volume: ResizeVolume,
    /// The new size of the logical volume, if the volume is one. The default is all free space of
    /// its volume group.
    pub logical_size: Option<NewSize>,
    /// The permission to make the disk smaller, and how small; `None` only grows.
    pub shrink: Option<ShrinkTo>,
}

impl ResizeRequest {
    /// Returns the request with the name of the volume, which a change could make ambiguous.
    fn resolved(&self, disk: &Disk) -> Result<Self> {
        let volume = match &self.volume {
            ResizeVolume::At(offset_bytes) => ResizeVolume::At(*offset_bytes),
            volume => ResizeVolume::Named(volume.find(disk)?.name().to_owned()),
        };
        Ok(Self {
            volume,
            ..self.clone()
        })
    }
}

/// The volume that a resize is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResizeVolume {
    /// The one of [`Disk::default_volume`].
    #[default]
    Default,
    /// The one with this name, as for [`Disk::volume`].
    Named(String),
    /// The range from this byte of the disk to its end.
    At(u64),
}

impl ResizeVolume {
    /// Returns the volume, of the content of an unlocked encrypted volume the inside.
    fn find(&self, disk: &Disk) -> Result<Volume> {
        let volume = match self {
            Self::Default => disk.default_volume()?,
            Self::Named(name) => disk.volume(name)?,
            Self::At(offset_bytes) => disk.volume_at(*offset_bytes)?,
        };
        if volume.is_unlocked() {
            return disk.volume(&format!("{}/luks", volume.name()));
        }
        Ok(volume)
    }
}

impl DiskOptions {
    /// Resizes the disk of an image, and the selected volume with everything around it: image (raw
    /// or qcow2), partition, LUKS, LVM and filesystem. Nothing to resize is a success.
    ///
    /// The image is opened for writing, or as [`overlay`](Self::overlay) and
    /// [`dry_run`](Self::dry_run) say: an overlay is resized instead of its backing file, and a dry
    /// run only returns the steps. `tool` resizes filesystems without native support.
    ///
    /// When it returns, all changes are durable. A request that can't be fulfilled is refused
    /// before the first write. After a crash, an error of a later step or a cancellation by
    /// `progress`, the request is completed by repeating it; for [`NewSize::More`], by repeating it
    /// without a size.
    ///
    /// # Errors
    /// * `Invalid` for a size below the present one;
    /// * `NoSpace` if nothing can use the new space, for example because another partition follows;
    /// * `Unsupported` for a volume whose contents can't be resized;
    /// * `ReadOnly` if the options are for reading; `Locked` if the image is in use;
    /// * as [`open_spec`](Self::open_spec), and the errors of each step.
    pub fn resize(
        &self,
        image: impl AsRef<OsStr>,
        request: &ResizeRequest,
        tool: Option<&dyn ResizeTool>,
        progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<ResizeReport> {
        let source = ImageSource::File(ImageSpec::parse(image.as_ref())?);
        self.resize_source(&source, request, tool, progress)
    }

    /// Carries out [`resize`](Self::resize) on an image in any storage.
    fn resize_source(
        &self,
        source: &ImageSource,
        request: &ResizeRequest,
        tool: Option<&dyn ResizeTool>,
        progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<ResizeReport> {
        let disk = self.open_source(source)?;
        let request = &request.resolved(&disk)?;
        if request.shrink.is_some() {
            return shrink_disk(disk, request, progress);
        }
        let new_bytes = new_disk_bytes(&disk, request)?;
        let is_dry = matches!(disk.image, OpenedImage::DryRun(..));
        let depth = if is_dry { Depth::Full } else { Depth::Checks };
        let plan = Plan::make(&disk, new_bytes, request, tool, depth)?;
        if is_dry {
            return Ok(plan.report);
        }
        drop(plan.report);
        let image_step = report::image_step(&disk, new_bytes);
        let disk = if image_step.is_changed() {
            resize_image(disk, new_bytes, Shrink::Refused)?;
            self.open_source(source)?
        } else {
            disk
        };
        let is_halfway = image_step.is_changed();
        let report = carry_out(disk, image_step, request, tool, progress);
        report.map_err(|error| {
            if is_halfway {
                completed_by(error)
            } else {
                error
            }
        })
    }
}

impl Disk {
    /// Grows a volume with everything around it to the size of the disk, and closes the disk. Nothing
    /// to grow is a success. The guarantees are those of [`DiskOptions::resize`] without a size.
    ///
    /// # Errors
    /// As [`DiskOptions::resize`], after the opening of the image.
    pub fn grow(
        self,
        volume: ResizeVolume,
        tool: Option<&dyn ResizeTool>,
        progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<ResizeReport> {
        let request = ResizeRequest {
            volume,
            ..ResizeRequest::default()
        };
        let request = &request.resolved(&self)?;
        let disk_bytes = self.device().size_bytes();
        drop(Plan::make(&self, disk_bytes, request, tool, Depth::Checks)?);
        let image_step = report::image_step(&self, disk_bytes);
        carry_out(self, image_step, request, tool, progress)
    }
}

/// Carries out the steps after that of the image, and closes the disk.
fn carry_out(
    mut disk: Disk,
    image_step: ResizeStep,
    request: &ResizeRequest,
    tool: Option<&dyn ResizeTool>,
    progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
) -> Result<ResizeReport> {
    let mut steps = vec![image_step];
    let grown = Growth {
        request,
        tool,
        depth: Depth::OnDisk,
        progress,
    }
    .run(&mut disk, &mut steps);
    let report = grown.and_then(|()| ResizeReport::new(&disk, request, steps));
    let closed = disk.close();
    let report = report?;
    closed?;
    Ok(report)
}

/// Shrinks the disk, from the inside to the outside.
fn shrink_disk(
    mut disk: Disk,
    request: &ResizeRequest,
    progress: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
) -> Result<ResizeReport> {
    let new_bytes = match (request.shrink, request.size) {
        (Some(ShrinkTo::Minimum), _) => 0,
        (_, Some(NewSize::Bytes(bytes))) => bytes.next_multiple_of(SECTOR_BYTES),
        _ => {
            let reason = "a shrink needs the new size of the disk";
            return Err(disk.in_image(Error::new(ErrorKind::Invalid, reason)));
        }
    };
    if new_bytes > disk.device().size_bytes() {
        let reason = format!("the new size {new_bytes} is larger than the disk");
        let hint = "leave out --shrink to grow it";
        return Err(disk.in_image(Error::new(ErrorKind::Invalid, reason).with_hint(hint)));
    }
    let plan = ShrinkPlan::make(&disk, request, new_bytes)?;
    let image_step = report::image_step(&disk, plan.disk_bytes);
    let is_dry = matches!(disk.image, OpenedImage::DryRun(..));
    // Later there would be one about the backup of a GPT, which is in place for the new end.
    let warnings = disk.warnings();
    let mut planned = disk.in_memory(0);
    let mut steps = Vec::new();
    let mut ignore = |_| ControlFlow::Continue(());
    plan.run(
        &mut planned,
        request,
        Depth::Checks,
        &mut steps,
        &mut ignore,
    )?;
    if is_dry {
        steps.push(image_step);
        return Ok(ResizeReport {
            warnings,
            ..ResizeReport::new(&planned, request, steps)?
        });
    }
    drop(planned);
    steps.clear();
    plan.run(&mut disk, request, Depth::OnDisk, &mut steps, progress)?;
    steps.push(image_step.clone());
    let report = ResizeReport {
        warnings,
        ..ResizeReport::new(&disk, request, steps)?
    };
    if image_step.is_changed() {
        resize_image(disk, plan.disk_bytes, Shrink::Allowed)?;
    } else {
        disk.close()?;
    }
    Ok(report)
}

/// Returns the size that the disk will have.
fn new_disk_bytes(disk: &Disk, request: &ResizeRequest) -> Result<u64> {
    let old_bytes = disk.device().size_bytes();
    let wanted = match request.size {
        None | Some(NewSize::Largest) => return Ok(old_bytes),
        Some(NewSize::Bytes(bytes)) => Some(bytes),
        Some(NewSize::More(bytes)) => old_bytes.checked_add(bytes),
    };
    let rounded = wanted.and_then(|bytes| bytes.checked_next_multiple_of(SECTOR_BYTES));
    let new_bytes = rounded.filter(|&bytes| i64::try_from(bytes).is_ok());
    let Some(new_bytes) = new_bytes else {
        let reason = "the size is larger than any image";
        return Err(disk.in_image(Error::new(ErrorKind::Invalid, reason)));
    };
    if new_bytes < old_bytes {
        let reason = format!("the disk has {old_bytes} bytes, more than the new size {new_bytes}");
        let hint = "a smaller size needs --shrink";
        return Err(disk.in_image(Error::new(ErrorKind::Invalid, reason).with_hint(hint)));
    }
    Ok(new_bytes)
}

/// Changes the size of the image, and closes it.
fn resize_image(disk: Disk, new_bytes: u64, shrink: Shrink) -> Result<()> {
    let Disk {
        image,
        path,
        volumes,
        ..
    } = disk;
    drop(volumes); // Their devices belong to the image.
    let OpenedImage::Writable(image) = image else {
        let reason = "the disk is open read-only";
        return Err(Error::new(ErrorKind::ReadOnly, reason).in_file(&path));
    };
    let how = ResizeOptions {
        shrink,
        ..ResizeOptions::default()
    };
    let resized = image.resize(new_bytes, how);
    resized
        .map(|_| ())
        .map_err(|error| Error::from(error).in_file(&path))
}

/// Adds to an error after the first step how to complete the others.
fn completed_by(error: Error) -> Error {
    let first = if error.is_host_full() {
        "free space there; "
    } else {
        ""
    };
    match error.next_step() {
        Some(_) => error,
        None => error.with_hint(format!(
            "{first}the image has its new size; repeat the command without a size to complete the \
             rest"
        )),
    }
}
