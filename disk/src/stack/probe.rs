//! Identification of a volume's content by magic numbers, without opening it.
//!
//! The first 8 KiB, where nearly all kinds have their magic number, are read at once. Other places
//! are read only if nothing is recognised there. Layouts are those of the specifications that each
//! probe names.

use diskfs_block::{BlockRead, Result};

use super::content::Content;
use super::{lost_ext, lost_luks, magic};

impl Content {
    /// Returns the content of a device, or `None` if it has no known magic number.
    ///
    /// # Errors
    /// The errors of reading the device.
    pub fn probe(device: &dyn BlockRead) -> Result<Option<Self>> {
        if let Some(told) = magic::probe(device)? {
            return Ok(Some(told));
        }
        let lost = lost_luks::probe(device)?;
        Ok(lost.or_else(|| lost_ext::probe(device)))
    }
}
