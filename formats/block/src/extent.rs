//! Extents: runs of a device that are stored in the same way.

/// A run of a device's bytes that are all of one kind, starting at the requested offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The length in bytes; never zero.
    pub len_bytes: u64,
    /// The way in which the run is stored.
    pub kind: ExtentKind,
}

/// The way in which a run of bytes is stored, as in `qemu-img map` and NBD's `base:allocation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// Stored data; its contents are known only by reading.
    Data,
    /// Zeroes that are marked as such: a zero cluster, or a hole in a file.
    Zero,
    /// Bytes that neither this device nor any of its backing devices stores; they read as zeroes.
    Unallocated,
}

impl ExtentKind {
    /// Returns true if the run is known to be zeroes without reading it.
    pub const fn reads_as_zeroes(self) -> bool {
        !matches!(self, Self::Data)
    }
}
