//! The numbers of errors.

use diskfs_block::ErrorKind;

use super::numbered::numbered;

numbered! {
    /// The number of an error (`NBD_E*`).
    enum ErrorNumber: u32 {
        /// `NBD_EPERM`
        NotPermitted = 1,
        /// `NBD_EIO`
        Io = 5,
        /// `NBD_ENOMEM`
        NoMemory = 12,
        /// `NBD_EINVAL`
        Invalid = 22,
        /// `NBD_ENOSPC`
        NoSpace = 28,
        /// `NBD_EOVERFLOW`
        Overflow = 75,
        /// `NBD_ENOTSUP`
        NotSupported = 95,
        /// `NBD_ESHUTDOWN`
        Shutdown = 108,
    }
}

impl ErrorNumber {
    /// Returns the number for a failure of a device. `NBD_ENOTSUP` means "not fast" and nothing
    /// else, so what a device doesn't support is an I/O error.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ReadOnly | ErrorKind::Denied => Self::NotPermitted,
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::OutOfBounds | ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Cancelled => Self::Shutdown,
            _ => Self::Io,
        }
    }

    /// Returns the kind of a failure that a server reports. Unknown numbers are treated as
    /// `NBD_EINVAL`, as the specification asks for.
    pub(crate) fn kind(number: u32) -> ErrorKind {
        match Self::from_number(number) {
            Some(Self::NotPermitted) => ErrorKind::ReadOnly,
            Some(Self::NoSpace) => ErrorKind::NoSpace,
            Some(Self::Io | Self::NoMemory | Self::Shutdown) => ErrorKind::Io,
            Some(Self::NotSupported) => ErrorKind::Unsupported,
            Some(Self::Invalid | Self::Overflow) | None => ErrorKind::Invalid,
        }
    }

    /// Returns the name without `NBD_`, for messages.
    pub(crate) fn name(number: u32) -> String {
        let name = match Self::from_number(number) {
            Some(Self::NotPermitted) => "EPERM",
            Some(Self::Io) => "EIO",
            Some(Self::NoMemory) => "ENOMEM",
            Some(Self::Invalid) => "EINVAL",
            Some(Self::NoSpace) => "ENOSPC",
            Some(Self::Overflow) => "EOVERFLOW",
            Some(Self::NotSupported) => "ENOTSUP",
            Some(Self::Shutdown) => "ESHUTDOWN",
            None => return format!("error {number}"),
        };
        name.to_owned()
    }
}
