//! The rules for images that are neither raw nor qcow2.

use std::sync::Arc;

use diskfs_block::Result;
use diskfs_vmdk::{CreateType, Descriptor, DescriptorPlace, ExtentType};

use super::{Rule, Verdict};
use crate::mapped::{MapImage, open_compressed};
use crate::source::Source;
use crate::{Format, OpenOptions};

/// Checks an image, without the files that it names.
pub(super) fn check(
    source: &Source,
    (format, options): (Format, &OpenOptions),
    verdict: &mut Verdict,
) -> Result<()> {
    if format == Format::Vmdk {
        match Descriptor::read(source.device.as_ref()) {
            Ok(descriptor) => check_descriptor(&descriptor, verdict),
            Err(error) => return verdict.breaks_by(error),
        }
        // The files that it names are not opened.
        if !verdict.broken.is_empty() {
            return Ok(());
        }
    }
    let device = Arc::clone(&source.device);
    let image = match format {
        Format::Compressed => open_compressed(device, &source.path),
        _ => MapImage::open(format, device, options.disk.as_deref()),
    };
    let mut image = match image {
        Ok(image) => image,
        Err(error) => return verdict.breaks_by(error),
    };
    if let Some(parent) = &image.parent {
        let message = format!("the image has a parent: `{}`", parent.shown_name());
        verdict.breaks(Rule::BackingFile, message, None);
    }
    match image.map(&[]) {
        Ok(map) => verdict.virtual_size_bytes = Some(map.size_bytes()),
        Err(error) => verdict.breaks_by(error)?,
    }
    verdict.notes.append(&mut image.warnings);
    Ok(())
}

/// Checks the descriptor of a VMDK: the disk must be one sparse extent in the image itself.
fn check_descriptor(descriptor: &Descriptor, verdict: &mut Verdict) {
    let kind = &descriptor.create_type;
    let is_single = matches!(
        kind,
        CreateType::MonolithicSparse | CreateType::StreamOptimized
    );
    if !is_single {
        let message = format!(
            "the type of the VMDK is `{}`; only monolithicSparse and streamOptimized are accepted",
            kind.name().escape_debug()
        );
        verdict.breaks(Rule::VmdkType, message, None);
    }
    let is_embedded = descriptor.place == DescriptorPlace::Embedded;
    for extent in &descriptor.extents {
        let is_own = is_embedded && extent.extent_type == ExtentType::Sparse;
        let name = extent.file_name.as_deref().unwrap_or_default();
        if is_own && !name.contains(['/', '\\']) {
            continue;
        }
        let message = format!(
            "the VMDK has an extent of type {} in another file: `{}`",
            extent.extent_type.name(),
            name.escape_debug()
        );
        verdict.breaks(Rule::ExtentFile, message, None);
    }
    if descriptor.extents.is_empty() {
        verdict.breaks(Rule::Corrupt, "the VMDK states no extents", None);
    }
    if let Some(parent) = &descriptor.parent {
        let name = parent.file_name.escape_debug();
        let message = format!("the image has a parent: `{name}`");
        verdict.breaks(Rule::BackingFile, message, None);
    }
}
