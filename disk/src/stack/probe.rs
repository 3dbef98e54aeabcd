//! Tells what a volume holds from its magic numbers, without opening it.
//!
//! The first 8 KiB are read at once, where nearly all have their magic, and elsewhere only when
//! nothing is told there. Layouts are those of the kinds' own specifications, named at each.

use diskfs_block::{BlockRead, Result};

use super::content::Content;
use super::{lost_ext, lost_luks, magic};

impl Content {
    /// Returns the content of a device, or `None` if it has no known magic number.
    ///
    /// # Errors
    /// As reading the device.
    pub fn probe(device: &dyn BlockRead) -> Result<Option<Self>> {
        if let Some(told) = magic::probe(device)? {
            return Ok(Some(told));
        }
        let lost = lost_luks::probe(device)?;
        Ok(lost.or_else(|| lost_ext::probe(device)))
    }
}
