//! An image of a chain, as the image above it sees it.

use diskfs_block::{BlockRead, Error, ErrorKind, ExtentKind, Result};

/// An image of a chain, as the one above it reads it.
pub(crate) trait Layer: BlockRead {
    /// Returns the run from `offset` on, which lies within the disk; of at most `max_len` bytes.
    fn status_at(&self, offset: u64, max_len: u64) -> Result<Status>;
}

/// The storage of a run of the guest's disk, in the terms of `qemu-img map`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the fields are those of `qemu-img map`"
)]
pub(crate) struct Status {
    pub(crate) len_bytes: u64,
    /// The number of images above the one that answered.
    pub(crate) depth: u32,
    /// Allocated somewhere in the chain.
    pub(crate) present: bool,
    pub(crate) zero: bool,
    pub(crate) data: bool,
    pub(crate) compressed: bool,
    pub(crate) host_offset: Option<u64>,
}

impl Status {
    pub(crate) const fn kind(&self) -> ExtentKind {
        if !self.present {
            ExtentKind::Unallocated
        } else if self.zero {
            ExtentKind::Zero
        } else {
            ExtentKind::Data
        }
    }
}

/// Returns the error for a write to something that is open for reading only.
pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the image is open for reading only")
}
