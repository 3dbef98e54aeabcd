//! The files that `diskfs convert` reads and writes in place.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use diskfs::block::{BlockRead, File};
use diskfs::image::convert::{ConvertOptions, convert_into};
use diskfs::image::{Description, WritableImage, bitmaps};
use diskfs::{Disk, Error, ErrorKind, OpenOptions, Result};

use super::Convert;

impl Convert {
    /// Returns the file whose blocks DST can share.
    pub(super) fn shared(&self, disk: &Disk) -> Option<Arc<File>> {
        let is_plain = !self.source.volume.names_one() && !self.salvage && self.rate_limit == 0;
        disk.image().filter(|_| is_plain)?.raw_file()
    }

    pub(super) fn write_into(
        &self,
        from: &dyn BlockRead,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let open = OpenOptions {
            format: Some(self.format()),
            gate: self.gate()?,
            ..OpenOptions::default()
        };
        let image = WritableImage::open(&self.target, &open)?;
        if let Some(set) = &options.bitmaps {
            bitmaps::check_copy(&image, set)?;
        }
        let device = image.device();
        let is_zeroed = self.target_is_zero;
        let written = convert_into(from, device.as_ref(), is_zeroed, options, progress);
        written.map_err(|e| Error::from(e.in_file(&self.target)))?;
        drop(device);
        image.close()?;
        match &options.bitmaps {
            Some(set) => Ok(bitmaps::copy(&self.target, set, &open)?),
            None => Ok(()),
        }
    }
}

/// Refuses to write to a file that is being read.
pub(in super::super) fn refuse_source(target: &Path, disk: &Disk) -> Result<()> {
    if !is_in_chain(target, disk.description()) {
        return Ok(());
    }
    let reason = "the target is the image that is read, or one of its backing files";
    Err(Error::new(ErrorKind::Invalid, reason).in_file(target))
}

/// Returns true if a path leads to an image, or to one of its backing files.
pub(in super::super) fn is_in_chain(path: &Path, top: &Description) -> bool {
    let Ok(file) = path.metadata() else {
        return false;
    };
    let id = Some((file.dev(), file.ino()));
    chain(top).any(|image| image.file_id == id)
}

/// Returns an image and its backing files.
pub(super) fn chain(top: &Description) -> impl Iterator<Item = &Description> {
    std::iter::successors(Some(top), |image| image.backing.as_deref())
}
