//! Errors, converted to those of the filesystem layer.

use std::borrow::Cow;

pub(crate) use diskfs_vfs::{Error, ErrorKind, Result};

use crate::logical::Logical;

/// Returns the error for a structure at byte `at` of a device that contradicts its specification.
pub(crate) fn corrupt(reason: impl Into<Cow<'static, str>>, at: u64) -> Error {
    Error::new(ErrorKind::Corrupt, reason).at(at)
}

/// Returns the error for a structure at a logical address that contradicts its specification. The
/// address is part of the reason, because it is not a byte of a device.
pub(crate) fn corrupt_at(reason: impl std::fmt::Display, at: Logical) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{reason}, at logical {at}"))
}

/// Returns the error for a feature that is not supported.
pub(crate) fn unsupported(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unsupported, reason)
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
