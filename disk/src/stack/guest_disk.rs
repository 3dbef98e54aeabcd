//! The guest's disk as a device, readable and possibly writable.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};

/// A device that may be open for writing.
#[derive(Debug, Clone)]
pub(super) enum GuestDisk {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl GuestDisk {
    /// Returns the device for reading.
    pub(super) fn read(&self) -> Arc<dyn BlockRead> {
        match self {
            Self::ReadOnly(device) => Arc::clone(device),
            Self::Writable(device) => Arc::clone(device) as Arc<dyn BlockRead>,
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Self::ReadOnly(device) => device.size_bytes(),
            Self::Writable(device) => device.size_bytes(),
        }
    }
}
