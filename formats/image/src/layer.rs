//! The interface between the images of a chain.

use diskfs_block::{BlockRead, Error, ErrorKind, ExtentKind, Result};

/// An image of a chain, as the image above it reads it.
pub(crate) trait Layer: BlockRead {
    /// Returns the run of at most `max_len` bytes from `offset` on, which must lie within the disk.
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
    /// The number of images above the one that stores the run.
    pub(crate) depth: u32,
    /// True if the run is allocated somewhere in the chain.
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

    /// Returns the kind of the run in the top image alone: what only a backing file stores is
    /// unallocated there.
    pub(crate) const fn kind_in_top(&self) -> ExtentKind {
        match self.depth {
            0 => self.kind(),
            _ => ExtentKind::Unallocated,
        }
    }
}

/// Returns the error for a write to something that is open read-only.
pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the image is open read-only")
}
