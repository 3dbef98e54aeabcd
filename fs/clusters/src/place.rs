//! Where directory entries are.

/// An entry's size.
pub const ENTRY_BYTES: u64 = 32;
/// The same as a length in memory.
pub const ENTRY_LEN: usize = 32;
/// A directory entry as it is on the device.
pub type RawEntry = [u8; ENTRY_LEN];

/// Where a directory entry is: its byte on the device, in units of 32. Never 0 or 1, which lie in
/// the boot sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

impl Place {
    /// The place of the entry that begins at this byte.
    pub const fn at(offset: u64) -> Self {
        Self(offset / ENTRY_BYTES)
    }

    /// Its byte on the device.
    pub const fn offset(self) -> u64 {
        self.0.saturating_mul(ENTRY_BYTES)
    }
}
