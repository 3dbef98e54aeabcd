//! Growth of the image file.

use diskfs_block::{BlockWrite, Error, ErrorKind, Result};

/// Extends the file of an image to `end` bytes, if it is shorter.
///
/// # Errors
/// [`ErrorKind::NoSpace`] for a device whose size is fixed; those of [`BlockWrite::set_size`].
pub(super) fn extend(file: &dyn BlockWrite, end: u64) -> Result<()> {
    if end <= file.size_bytes() {
        return Ok(());
    }
    file.set_size(end).map_err(|e| match e.kind() {
        ErrorKind::Unsupported => {
            let reason = "no space left on the device that holds the image";
            Error::new(ErrorKind::NoSpace, reason).at(end)
        }
        _ => e,
    })
}
