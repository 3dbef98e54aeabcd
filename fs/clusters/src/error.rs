//! Failures of the device below.

use diskfs_vfs::{Error, ErrorKind};

/// A failure of the device below, as one of the filesystem. What the filesystem asks for lies
/// within the device, so an answer of "out of bounds" means that the device is shorter than it said.
pub fn device_failed(e: diskfs_block::Error) -> Error {
    use diskfs_block::ErrorKind as Device;
    let kind = match e.kind() {
        Device::Corrupt => ErrorKind::Corrupt,
        Device::Unsupported => ErrorKind::Unsupported,
        Device::Denied | Device::Locked => ErrorKind::Denied,
        Device::ReadOnly => ErrorKind::ReadOnly,
        Device::NoSpace => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    let error = Error::new(kind, "the device below the filesystem failed");
    match e.offset() {
        Some(offset) => error.at(offset),
        None => error,
    }
    .with_source(e)
}
