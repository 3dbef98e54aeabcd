//! Places of metadata: on the device, or in the metabox inode.

/// A place of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// True in the contents of the metabox inode, false on the primary device.
    pub(crate) is_in_metabox: bool,
    /// The byte there.
    pub(crate) at: u64,
}

impl Place {
    /// Returns a place on the device.
    pub(crate) const fn on_device(at: u64) -> Self {
        Self {
            is_in_metabox: false,
            at,
        }
    }

    /// Returns the place that comes `len` bytes later.
    pub(crate) fn after(self, len: u64) -> Self {
        Self {
            at: self.at.saturating_add(len),
            ..self
        }
    }

    /// Returns the next place whose byte is a multiple of `unit`.
    pub(crate) fn aligned(self, unit: u64) -> Self {
        let at = self.at.checked_next_multiple_of(unit);
        Self {
            at: at.unwrap_or(u64::MAX),
            ..self
        }
    }
}
