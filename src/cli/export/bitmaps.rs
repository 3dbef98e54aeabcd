//! The dirty bitmaps that NBD clients see.

use std::sync::Arc;

use diskfs::image::bitmaps::MarkedDisk;
use diskfs::nbd::server::{MetaContext, Status};
use diskfs::{Disk, Error, ErrorKind, Result, block};

use super::Export;

/// The namespace and kind of a context that is a bitmap, as QEMU's servers name it.
const PREFIX: &str = "qemu:dirty-bitmap:";
/// The flag of a marked range.
const DIRTY: u32 = 1;

/// A dirty bitmap as a metadata context.
#[derive(Debug)]
struct DirtyBitmap {
    name: String,
    marks: MarkedDisk,
}

impl MetaContext for DirtyBitmap {
    fn name(&self) -> &str {
        &self.name
    }

    fn status_at(&self, offset: u64) -> block::Result<Status> {
        let (len_bytes, is_marked) = self.marks.mark_at(offset)?;
        Ok(Status {
            len_bytes,
            flags: if is_marked { DIRTY } else { 0 },
        })
    }
}

impl Export {
    /// Returns the bitmaps that clients see.
    pub(super) fn contexts(&self, disk: &Disk) -> Result<Vec<Arc<dyn MetaContext>>> {
        if self.bitmap.is_empty() {
            return Ok(Vec::new());
        }
        let is_whole = !self.source.volume.names_one();
        let Some(image) = disk.image().filter(|_| is_whole) else {
            let reason = "--bitmap: bitmaps belong to the whole disk";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("leave out --bitmap, or the option that selects a volume"));
        };
        let mut contexts: Vec<Arc<dyn MetaContext>> = Vec::new();
        for name in &self.bitmap {
            contexts.push(Arc::new(DirtyBitmap {
                name: format!("{PREFIX}{name}"),
                marks: MarkedDisk::new(image, name)?,
            }));
        }
        Ok(contexts)
    }
}
