//! The bitmaps of a copy.

use std::path::Path;

use diskfs_block::{BlockRead, Error, Result};

use super::{ConvertOptions, gate};
use crate::OpenOptions;
use crate::bitmaps::{BitmapSet, copy};
use crate::create::{Compat, NewImage, UnfinishedImage};

/// Fails if the bitmaps cannot be copied into the new image.
pub(super) fn check(from: &dyn BlockRead, options: &ConvertOptions) -> Result<()> {
    let Some(bitmaps) = &options.bitmaps else {
        return Ok(());
    };
    let has_bitmaps = matches!(&options.image, NewImage::Qcow2(new) if new.compat != Compat::V0_10);
    if !has_bitmaps {
        let reason = "bitmaps are only supported in qcow2 images of version 3 (compat=1.1)";
        return Err(Error::unsupported(reason));
    }
    let (size_bytes, disk_bytes) = (from.size_bytes(), bitmaps.disk_bytes()?);
    if size_bytes == disk_bytes {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the bitmaps describe a disk of {disk_bytes} bytes, but {size_bytes} bytes are copied"
    )))
}

/// Copies the bitmaps into a new image that is complete otherwise.
pub(super) fn add(
    new: &UnfinishedImage,
    path: &Path,
    bitmaps: &BitmapSet,
    image: &NewImage,
) -> Result<()> {
    let open = OpenOptions {
        format: Some(image.format()),
        files: new.opener(),
        gate: gate(path, image),
        ..OpenOptions::default()
    };
    copy(path, bitmaps, &open)
}
