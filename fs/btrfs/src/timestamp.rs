//! Times (`struct btrfs_timespec`).

use diskfs_vfs::Timestamp;
use zerocopy::little_endian::{I64, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A time as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawTimestamp {
    sec: I64,
    nsec: U32,
}

impl RawTimestamp {
    /// Returns the time. Too large a fraction is cut, which affects nothing else.
    pub(crate) fn get(self) -> Timestamp {
        Timestamp {
            seconds: self.sec.get(),
            nanoseconds: self.nsec.get().min(999_999_999),
        }
    }
}
