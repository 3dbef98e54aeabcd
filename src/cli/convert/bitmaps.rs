//! The bitmaps that `diskfs convert` copies.

use diskfs::image::ImageSpec;
use diskfs::image::bitmaps::{BitmapSet, Inconsistent};
use diskfs::{Disk, Error, ErrorKind, Result};

use super::super::session::Session;
use super::Convert;

impl Convert {
    /// Returns the bitmaps to copy, if any are, and prints which are left out.
    pub(super) fn bitmap_set(
        &self,
        disk: &Disk,
        session: &mut Session,
    ) -> Result<Option<BitmapSet>> {
        if !self.bitmaps {
            return Ok(None);
        }
        let Some(image) = disk.image().filter(|_| self.is_whole()) else {
            let reason = "--bitmaps: bitmaps belong to the current state of the whole disk";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("leave out --bitmaps, or the option that selects a part"));
        };
        let inconsistent = if self.skip_broken_bitmaps {
            Inconsistent::Skipped
        } else {
            Inconsistent::Refused
        };
        let set = BitmapSet::of(image, inconsistent)?;
        for name in set.skipped() {
            let name = name.escape_debug();
            session.warn(&format!(
                "bitmap `{name}` was not saved properly, and is not copied"
            ));
        }
        Ok(Some(set))
    }

    /// Returns true if the current state of the whole disk is copied.
    pub(super) fn is_whole(&self) -> bool {
        let spec = ImageSpec::parse(self.image.as_os_str());
        let names_snapshot = spec.is_ok_and(|spec| spec.snapshot.is_some());
        !self.source.volume.names_one() && self.source.image.snapshot.is_none() && !names_snapshot
    }
}
