//! Runs of a device that are stored in the same way.

/// A run of a device's bytes that are all of one kind, from the offset that was asked for onward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Length in bytes; never zero.
    pub len_bytes: u64,
    /// How the run is stored.
    pub kind: ExtentKind,
}

/// How a run of bytes is stored, as `qemu-img map` and NBD's `base:allocation` tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// Stored bytes; they must be read to be known.
    Data,
    /// Reads as zeroes, and says so itself: a zero cluster, or a hole in a file.
    Zero,
    /// Not stored in this device or in anything behind it; reads as zeroes.
    Unallocated,
}

impl ExtentKind {
    /// Whether the run reads as zeroes without being read.
    pub const fn reads_as_zeroes(self) -> bool {
        !matches!(self, Self::Data)
    }
}
