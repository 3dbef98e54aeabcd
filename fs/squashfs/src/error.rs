//! Errors, converted to those of the filesystem layer.

pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

/// Returns the error for a structure at byte `at` that contradicts its specification.
pub(crate) fn corrupt(reason: impl Into<std::borrow::Cow<'static, str>>, at: u64) -> Error {
    Error::new(ErrorKind::Corrupt, reason).at(at)
}

/// Converts an error of the underlying device to an error of the filesystem.
pub(crate) fn device_failed(e: diskfs_block::Error) -> Error {
    use diskfs_block::ErrorKind as Device;
    let kind = match e.kind() {
        Device::Corrupt => ErrorKind::Corrupt,
        Device::Unsupported => ErrorKind::Unsupported,
        Device::Denied | Device::Locked => ErrorKind::Denied,
        Device::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Io,
    };
    let error = Error::new(kind, "the underlying device failed");
    match e.offset() {
        Some(offset) => error.at(offset),
        None => error,
    }
    .with_source(e)
}
