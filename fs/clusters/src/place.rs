//! Locations of directory entries.

/// The size of a directory entry in bytes.
pub const ENTRY_BYTES: u64 = 32;
/// The size of a directory entry in bytes, as a length in memory.
pub const ENTRY_LEN: usize = 32;
/// A directory entry as stored on the device.
pub type RawEntry = [u8; ENTRY_LEN];

/// The place of a directory entry: its byte offset on the device divided by 32. Never 0 or 1,
/// because those are in the boot sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPlace(pub u64);

impl EntryPlace {
    /// Returns the place of the entry at this byte offset.
    pub const fn at(offset: u64) -> Self {
        Self(offset / ENTRY_BYTES)
    }

    /// Returns the byte offset on the device.
    pub const fn offset(self) -> u64 {
        self.0.saturating_mul(ENTRY_BYTES)
    }
}
