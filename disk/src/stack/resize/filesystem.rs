//! The step of the filesystem or swap area.

use std::ops::ControlFlow;

use super::Volume;
use super::plan::Depth;
use super::report::{ResizeLayer, ResizeStep};
use crate::stack::content::{ContentClass, LUKS};
use crate::stack::grow::NewSpace;
use crate::{Error, ErrorKind, Result};

/// The cases in which a tool resizes a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolUse {
    /// Never: it doesn't know the kind.
    Never,
    /// If diskfs doesn't support it natively.
    Fallback,
    /// Always.
    Always,
}

/// A program that resizes filesystems without native support, for example in a microVM.
pub trait ResizeTool {
    /// Returns when it resizes filesystems of a kind, as `blkid` names it.
    fn use_for(&self, kind: &str) -> ToolUse;

    /// Fails if the program for a kind is not available.
    ///
    /// # Errors
    /// `Unsupported`, with the reason.
    fn check(&self, kind: &str) -> Result<()>;

    /// Grows the filesystem of a volume, which is open for writing, to the volume's size.
    ///
    /// # Errors
    /// Those of the program, and of starting it.
    fn grow(&self, volume: &Volume) -> Result<()>;
}

/// The kinds that [`Volume::grow_filesystem`] can know.
const NATIVE: &[&str] = &["ext2", "ext3", "ext4", "vfat", "exfat", "swap"];
/// Volumes whose contents are volumes themselves.
const CONTAINERS: &[&str] = &[LUKS, "LVM2_member"];

/// Fails unless the content of a volume can be resized.
pub(super) fn check_content(volume: &Volume, tool: Option<&dyn ResizeTool>) -> Result<()> {
    let content = volume.content()?;
    let is_known = content.is_some_and(|content| {
        NATIVE.contains(&content.kind)
            || CONTAINERS.contains(&content.kind)
            || used(tool, content.kind) != ToolUse::Never
    });
    if is_known {
        return Ok(());
    }
    let kind = content.map_or("no known filesystem", |content| content.kind);
    let reason = format!(
        "volume {} holds {kind}, which cannot be grown",
        volume.name()
    );
    let hint =
        "select another volume with --volume, or grow a partition with `diskfs partition grow`";
    Err(volume.in_image(Error::new(ErrorKind::Unsupported, reason).with_hint(hint)))
}

fn used(tool: Option<&dyn ResizeTool>, kind: &str) -> ToolUse {
    tool.map_or(ToolUse::Never, |tool| tool.use_for(kind))
}

/// Grows the filesystem of a volume to the volume's size. Returns `None` for a physical volume,
/// which has no content of its own.
pub(super) fn grow(
    volume: &Volume,
    tool: Option<&dyn ResizeTool>,
    depth: Depth,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<ResizeStep>> {
    let Some(content) = volume.content()? else {
        return Ok(None);
    };
    let kind = content.kind;
    let name = volume.name();
    let step = |sizes| ResizeStep::new(ResizeLayer::Filesystem, name, sizes).of_kind(kind);
    if kind == LUKS {
        let sizes = (volume.size_bytes(), volume.size_bytes());
        let note = format!("what is encrypted keeps its size without a key; use --key {name}:ask");
        return Ok(Some(step(sizes).with_note(note)));
    }
    if content.class != ContentClass::Filesystem && !NATIVE.contains(&kind) {
        return Ok(None);
    }
    let tool = tool.map(|tool| (tool, tool.use_for(kind)));
    if let Some((tool, ToolUse::Always)) = tool {
        return by_tool(volume, tool, depth, &step).map(Some);
    }
    match (natively(volume, depth, progress), tool) {
        (Err(error), Some((tool, ToolUse::Fallback))) if error.kind() == ErrorKind::Unsupported => {
            tool.check(kind).map_err(|why| both(&error, &why))?;
            let grown = by_tool(volume, tool, depth, &step);
            grown.map(Some).map_err(|why| match why.kind() {
                ErrorKind::Unsupported => both(&error, &why),
                _ => why,
            })
        }
        (sizes, _) => sizes.map(|sizes| Some(step(sizes))),
    }
}

/// Combines the errors of the native driver and of the tool.
fn both(native: &Error, tool: &Error) -> Error {
    let reason = format!("{}; {}", native.reason(), tool.reason());
    let error = Error::new(tool.kind(), reason);
    match tool.next_step() {
        Some(step) => error.with_hint(step),
        None => error,
    }
}

/// Returns the old and the new size.
fn natively(
    volume: &Volume,
    depth: Depth,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(u64, u64)> {
    let grown = volume.grow_filesystem(NewSpace::Unknown, &mut |bytes| match depth {
        Depth::OnDisk | Depth::Full => progress(bytes),
        Depth::Checks => ControlFlow::Break(()),
    });
    match grown {
        Err(error) if depth == Depth::Checks && error.kind() == ErrorKind::Cancelled => {
            let old_bytes = volume.filesystem_bytes()?.unwrap_or_default();
            Ok((old_bytes, volume.size_bytes()))
        }
        grown => grown.map(|grown| (grown.old_bytes, grown.new_bytes)),
    }
}

fn by_tool(
    volume: &Volume,
    tool: &dyn ResizeTool,
    depth: Depth,
    step: &dyn Fn((u64, u64)) -> ResizeStep,
) -> Result<ResizeStep> {
    let size_bytes = volume.size_bytes();
    let old_bytes = volume.filesystem_bytes()?.unwrap_or(size_bytes);
    tool.check(volume.filesystem_kind()?)?;
    if depth != Depth::OnDisk {
        let planned = step((old_bytes, size_bytes));
        return Ok(planned.with_note("by the filesystem's own program in a microVM"));
    }
    tool.grow(volume)?;
    let new_bytes = volume.filesystem_bytes()?.unwrap_or(size_bytes);
    Ok(step((old_bytes, new_bytes)))
}
