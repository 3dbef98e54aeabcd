//! The steps of a resize, and their results.

use super::{Disk, ResizeRequest};
use crate::Result;

/// A layer of the stack that has a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeLayer {
    /// The image.
    Image,
    /// A partition.
    Partition,
    /// An md array, whose size stays.
    Array,
    /// The decrypted inside of an encrypted volume. Its size follows that of the volume.
    Luks,
    /// An LVM physical volume.
    PhysicalVolume,
    /// An LVM logical volume.
    LogicalVolume,
    /// A filesystem or a swap area.
    Filesystem,
}

impl ResizeLayer {
    /// Returns the name of the layer in JSON: `physical-volume`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Partition => "partition",
            Self::Array => "array",
            Self::Luks => "luks",
            Self::PhysicalVolume => "physical-volume",
            Self::LogicalVolume => "logical-volume",
            Self::Filesystem => "filesystem",
        }
    }

    /// Returns the layer in words: `physical volume`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Luks => "LUKS",
            Self::PhysicalVolume => "physical volume",
            Self::LogicalVolume => "logical volume",
            other => other.name(),
        }
    }
}

/// One step of a resize: the layer with its old and its new size.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResizeStep {
    /// The layer.
    pub layer: ResizeLayer,
    /// The name of the volume: `p2`, `vg0/root`; `disk` for the image.
    pub name: String,
    /// The kind of the image or filesystem: `qcow2`, `ext4`; for other layers their words.
    pub kind: String,
    /// The size before, in bytes.
    pub old_bytes: u64,
    /// The size after, in bytes.
    pub new_bytes: u64,
    /// A remark for the user: the reason why the size stays, or how it changes.
    pub note: Option<String>,
}

impl ResizeStep {
    pub(super) fn new(layer: ResizeLayer, name: &str, sizes: (u64, u64)) -> Self {
        Self {
            layer,
            name: name.to_owned(),
            kind: layer.words().to_owned(),
            old_bytes: sizes.0,
            new_bytes: sizes.1,
            note: None,
        }
    }

    pub(super) fn of_kind(self, kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            ..self
        }
    }

    pub(super) fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: Some(note.into()),
            ..self
        }
    }

    /// Returns true if the step changes the size.
    pub fn is_changed(&self) -> bool {
        self.old_bytes != self.new_bytes
    }
}

/// The progress of a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResizeProgress {
    /// The layer of the present step.
    pub layer: ResizeLayer,
    /// The number of bytes that the step has done since the last call.
    pub bytes: u64,
}

/// The result of a resize.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResizeReport {
    /// The name of the resized volume.
    pub volume: String,
    /// The kind of its content, as `blkid` names it.
    pub kind: String,
    /// The size of the volume in bytes.
    pub size_bytes: u64,
    /// The steps, from the outside to the inside.
    pub steps: Vec<ResizeStep>,
    /// For a dry run the number of bytes of the disk that would change.
    pub changed_bytes: Option<u64>,
    /// The faults of the image and its tables, as sentences for the user.
    pub warnings: Vec<String>,
}

impl ResizeReport {
    pub(super) fn new(
        disk: &Disk,
        request: &ResizeRequest,
        steps: Vec<ResizeStep>,
    ) -> Result<Self> {
        let volume = request.volume.find(disk)?;
        Ok(Self {
            volume: volume.name().to_owned(),
            kind: volume
                .content()?
                .map_or("", |content| content.kind)
                .to_owned(),
            size_bytes: volume.size_bytes(),
            steps,
            changed_bytes: disk.changed_in_memory(),
            warnings: disk.warnings(),
        })
    }

    /// Returns the size of the volume before, in bytes.
    pub fn old_size_bytes(&self) -> u64 {
        let of_volume = self
            .steps
            .iter()
            .rfind(|step| step.layer != ResizeLayer::Filesystem);
        of_volume.map_or(self.size_bytes, |step| step.old_bytes)
    }

    /// Returns true if any step changes a size.
    pub fn is_changed(&self) -> bool {
        self.steps.iter().any(ResizeStep::is_changed)
    }
}

/// Returns the step of the image.
pub(super) fn image_step(disk: &Disk, new_bytes: u64) -> ResizeStep {
    let format = disk.description().format;
    let kind = format.map_or_else(|| "image".to_owned(), |format| format.to_string());
    let sizes = (disk.device().size_bytes(), new_bytes);
    ResizeStep::new(ResizeLayer::Image, "disk", sizes).of_kind(kind)
}
