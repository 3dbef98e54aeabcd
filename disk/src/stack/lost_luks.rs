//! Detection of LUKS2 volumes whose first header is destroyed, so that no magic number identifies
//! them.

use diskfs_block::{BlockRead, ErrorKind, Result};
use diskfs_luks::{Header, Version};

use super::content::Content;

/// Identifies a volume by the second copy of its header, which is in one of nine places (LUKS2
/// on-disk format, table 1). Called only for volumes without other known content, because it takes
/// nine reads.
pub(super) fn probe(device: &dyn BlockRead) -> Result<Option<Content>> {
    match Header::read(device) {
        Ok(Some(header)) if header.version() == Version::Luks2 => {
            Ok(Some(Content::of_luks(&header)))
        }
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        // A damaged copy proves nothing.
        Ok(_) | Err(_) => Ok(None),
    }
}
