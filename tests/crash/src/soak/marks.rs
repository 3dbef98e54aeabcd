//! A persistent dirty bitmap of the image of a soak, and what it must mark.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use diskfs_block::ErrorKind;
use diskfs_image::Image;
use diskfs_image::bitmaps::MarkedDisk;

/// A bitmap, and the parts of the disk that were written since it was added.
#[derive(Debug)]
pub(super) struct Marks {
    pub(super) name: String,
    granularity_bytes: u64,
    written: Vec<bool>,
}

impl Marks {
    /// Returns the marks of a new bitmap.
    pub(super) fn new(name: String, granularity_bytes: u64) -> Self {
        Self {
            name,
            granularity_bytes,
            written: Vec::new(),
        }
    }

    /// Adds a range that was written.
    pub(super) fn add(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        for part in range.start / self.granularity_bytes..=(range.end - 1) / self.granularity_bytes
        {
            let part = usize::try_from(part).unwrap_or(usize::MAX);
            if self.written.len() <= part {
                self.written.resize(part + 1, false);
            }
            self.written[part] = true;
        }
    }

    /// Checks the bitmap of an image that was closed: it marks what was written, and nothing else.
    ///
    /// # Errors
    /// A wrong mark.
    pub(super) fn check(&self, image: &Image) -> Result<()> {
        let name = &self.name;
        let marked = MarkedDisk::new(image, name).with_context(|| format!("bitmap {name}"))?;
        let size = image.device().size_bytes();
        for part in 0..size.div_ceil(self.granularity_bytes) {
            let (_, is_marked) = marked.mark_at(part * self.granularity_bytes)?;
            let was_written = self.written.get(usize::try_from(part)?);
            let was_written = was_written.copied().unwrap_or(false);
            ensure!(
                is_marked == was_written,
                "bitmap {name}: mark {part} is {is_marked}"
            );
        }
        Ok(())
    }

    /// Checks the bitmap after a crash: it is known to be incomplete, or it marks what was written
    /// before the image was opened, and every byte that differs since.
    ///
    /// # Errors
    /// A mark that is missing in a bitmap that is said to be complete.
    pub(super) fn check_crashed(&self, image: &Image, before: &[u8], disk: &[u8]) -> Result<()> {
        let name = &self.name;
        let marked = match MarkedDisk::new(image, name) {
            Ok(marked) => marked,
            Err(error) if error.kind() == ErrorKind::Invalid => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("bitmap {name}")),
        };
        let part_bytes = usize::try_from(self.granularity_bytes)?;
        let parts = before.chunks(part_bytes).zip(disk.chunks(part_bytes));
        for (part, (was, is)) in parts.enumerate() {
            let was_written = self.written.get(part).copied().unwrap_or(false);
            if was == is && !was_written {
                continue;
            }
            let at = u64::try_from(part)? * self.granularity_bytes;
            let (_, is_marked) = marked.mark_at(at)?;
            ensure!(is_marked, "bitmap {name}: mark {part} is missing");
        }
        Ok(())
    }
}
