//! LUKS2 volumes whose first header is gone, so that nothing at their start tells what they are.

use diskfs_block::{BlockRead, ErrorKind, Result};
use diskfs_luks::{Header, Version};

use super::content::Content;

/// A volume that is told by the second copy of its header, which is in one of nine places (LUKS2
/// on-disk format, table 1). For volumes on which nothing else was found: it takes as many reads.
pub(super) fn probe(device: &dyn BlockRead) -> Result<Option<Content>> {
    match Header::read(device) {
        Ok(Some(header)) if header.version() == Version::Luks2 => {
            Ok(Some(Content::of_luks(&header)))
        }
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        // A copy that is broken, too, proves nothing.
        Ok(_) | Err(_) => Ok(None),
    }
}
