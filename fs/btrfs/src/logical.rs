//! Logical addresses.

use std::fmt;

/// A byte of the filesystem's logical address space, which chunks map to devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Logical(pub(crate) u64);

impl Logical {
    /// Returns the address `bytes` further; saturates, and no chunk contains the last address.
    pub(crate) const fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Returns the distance from `start` in bytes; 0 if `start` is further.
    pub(crate) const fn since(self, start: Self) -> u64 {
        self.0.saturating_sub(start.0)
    }
}

impl fmt::Display for Logical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
