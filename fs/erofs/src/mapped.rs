//! Ranges of an inode's contents, and where they are stored.

use crate::extent::Encoded;
use crate::place::Place;

/// A range of an inode's contents, and where it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Mapped {
    /// The offset of the range in the contents.
    pub(crate) start: u64,
    /// The length; never zero.
    pub(crate) len: u64,
    pub(crate) source: Source,
}

/// The place of a range of contents.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Not stored: zeroes.
    Hole,
    /// Stored as it is.
    Stored {
        /// 0, or the number of a device.
        device: u16,
        at: u64,
    },
    /// Stored as it is, after the inode.
    Inline(Place),
    /// Compressed, or stored in an unusual order.
    Encoded(Encoded),
    /// At this offset of the packed inode.
    Fragment(u64),
}

impl Mapped {
    /// Returns the end of the range in the contents.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}
